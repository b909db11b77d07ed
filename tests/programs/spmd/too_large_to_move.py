"""An array that the host has no memory to stage: use_spmd raises, what there was stays, and it can be tried again."""

import resource

import process_memory
import torch

import torch_go_xla
import torch_go_xla.runtime as xr

x = torch.ones(1 << 28, device="xla") * 3  # 1 GiB
torch_go_xla.sync(wait=True)
_, most = resource.getrlimit(resource.RLIMIT_AS)
spare = 768 << 20  # for threads: 64 MiB each, for their heaps
resource.setrlimit(resource.RLIMIT_AS, (process_memory.mapped() + spare, most))
try:
    xr.use_spmd()
    raise SystemExit("there was no error")
except torch_go_xla.OutOfMemoryError as e:
    assert "out of memory on the host" in str(e), e
finally:
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
assert not xr.is_spmd() and x[-1].item() == 3
xr.use_spmd()
assert xr.is_spmd() and x[-1].item() == 3
print("good")
