"""An array that the host has no memory to stage: use_spmd raises, what there was stays, and it can be tried again."""

import resource
from pathlib import Path

import torch

import torch_go_xla
import torch_go_xla.runtime as xr

x = torch.ones(1 << 28, device="xla") * 3  # 1 GiB
torch_go_xla.sync(wait=True)
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (768 << 20), -1))  # room for threads, whose heaps take 64 MiB each
try:
    xr.use_spmd()
    raise SystemExit("there was no error")
except torch_go_xla.OutOfMemoryError as e:
    assert "out of memory on the host" in str(e), e
assert not xr.is_spmd() and x[-1].item() == 3
resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
xr.use_spmd()
assert xr.is_spmd() and x[-1].item() == 3
print("good")
