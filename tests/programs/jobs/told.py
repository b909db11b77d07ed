"""What a process is told of one that has stopped."""

import os

import torch

import torch_go_xla


def told(words, f):
    try:
        f()
    except RuntimeError as e:
        assert f"process {stops}" in str(e) and words in str(e), e
    else:
        raise AssertionError("no error")


def alone():
    assert (torch.ones(2, device="xla") + 1).tolist() == [2, 2]


stops, size = int(os.environ["STOPS"]), int(os.environ["SIZE"])
