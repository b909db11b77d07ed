"""Library without the entry point: run by test_bad_input.py."""

import torch

import torch_go_xla

try:
    torch.ones(2, device="xla")
except RuntimeError as e:
    print(e)
