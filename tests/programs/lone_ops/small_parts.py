"""Print by how many bytes the process grows as it keeps small parts of 60 large results, of 480 MiB together.

Heaps of threads keep what was freed, up to a bound; so 60 others were computed before.
"""

import resource
from pathlib import Path

import torch

import torch_go_xla


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def part() -> torch.Tensor:
    found = torch.sort(x)[0][:4096].clone()
    torch_go_xla.sync(wait=True)
    return found


x = torch.rand(1 << 21).to("xla")
parts = [part() for _ in range(60)]
before = resident()
parts += [part() for _ in range(60)]
print(resident() - before)
