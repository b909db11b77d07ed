"""Starts processes in three ways; each finds the functions of this file, which imports torch_xla at its head."""

import multiprocessing
import sys

import torch
import torch_xla


class Own:
    """What only this file has."""


def say(place: int, own: Own) -> None:
    """Print where and as what the process runs."""
    total = torch.ones(2, device="xla").sum().item()
    print(place, __name__, type(own) is Own, sys.argv[1:], total, flush=True)


if __name__ == "__main__":
    torch_xla.launch(say, args=(Own(),))
    for place, method in enumerate(("spawn", "forkserver"), 2):
        process = multiprocessing.get_context(method).Process(target=say, args=(place, Own()))
        process.start()
        process.join()
