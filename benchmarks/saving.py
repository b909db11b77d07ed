"""``python -m benchmarks.saving [--mb N] [--rounds N]``: xm.save beside torch.save of the same tensors on the CPU.

The rounds take turns. ``torch.save`` returns when the kernel has the data, ``+ fsync`` when the disk has them, which is
what ``xm.save`` promises. Prints the least and the median seconds of each and the processor's seconds, and the memory
that a save takes; ends with 1 if that is more than the largest tensor and 64 MB.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable

import torch

import torch_go_xla
import torch_go_xla.core.xla_model as xm

_TENSOR = 8  # MB


def peak() -> int:
    """Return the most memory that the process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def flush(path: str) -> None:
    """Wait until a file is on the disk."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def main() -> None:
    """Run, print, judge."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.saving", description=__doc__)
    parser.add_argument("--mb", type=int, default=200, help="size of the state, in tensors of 8 MB")
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    host = {f"p{i}": torch.randn(_TENSOR << 18) for i in range(args.mb // _TENSOR)}
    device = {name: t.to("xla") for name, t in host.items()}
    torch_go_xla.sync(wait=True)
    with tempfile.TemporaryDirectory(dir=".") as folder:
        ours, theirs = os.path.join(folder, "ours.pt"), os.path.join(folder, "theirs.pt")
        xm.save({"p": device["p0"]}, ours)
        before = peak()
        xm.save(device, ours)
        grown = peak() - before
        cases: dict[str, Callable[[], object]] = {
            "torch.save": lambda: torch.save(host, theirs),
            "torch.save + fsync": lambda: (torch.save(host, theirs), flush(theirs)),
            "xm.save": lambda: xm.save(device, ours),
        }
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in cases}
        for _ in range(args.rounds):
            for name, save in cases.items():
                wall, cpu = time.perf_counter(), time.process_time()
                save()
                times[name].append((time.perf_counter() - wall, time.process_time() - cpu))
        loaded = torch.load(ours, weights_only=True)
        assert all(torch.equal(loaded[name], t) for name, t in host.items())
    for name, runs in times.items():
        wall, cpu = zip(*runs, strict=True)
        print(f"{name:20} least {min(wall):.3f} s, median {statistics.median(wall):.3f} s, processor {min(cpu):.3f} s")
    print(f"memory beyond the state of {args.mb} MB: {grown} MB; the largest tensor has {_TENSOR} MB")
    sys.exit(grown > _TENSOR + 64)


if __name__ == "__main__":
    main()
