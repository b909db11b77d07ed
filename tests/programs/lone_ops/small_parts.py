"""Print by how many bytes the process grows as it keeps small parts of 60 large results, of 480 MiB together.

Heaps of threads keep what was freed, up to a bound; so 60 others were computed before.
"""

import process_memory
import torch

import torch_go_xla


def part() -> torch.Tensor:
    found = torch.sort(x)[0][:4096].clone()
    torch_go_xla.sync(wait=True)
    return found


x = torch.rand(1 << 21).to("xla")
parts = [part() for _ in range(60)]
before = process_memory.resident()
parts += [part() for _ in range(60)]
print(process_memory.resident() - before)
