"""One device of all: run by test_spmd.py."""

import torch
from raises import raises

import torch_go_xla
import torch_go_xla.runtime as xr
from torch_go_xla._backend import partitioning

a = torch.arange(6.0).to("xla")
b = a + 1
assert not xr.is_spmd() and partitioning.num_devices() == 8 and torch_go_xla.device_count() == 8
raises(RuntimeError, "use_spmd", partitioning.annotate, a, "{replicated}")
raises(RuntimeError, "use_spmd", partitioning.annotate_, a, "{replicated}")
xr.use_spmd()
xr.use_spmd()
assert xr.is_spmd() and partitioning.num_devices() == 8 == xr.global_runtime_device_count()
assert torch_go_xla.device_count() == 1
assert a.tolist() == [0, 1, 2, 3, 4, 5] and b.tolist() == [1, 2, 3, 4, 5, 6] and (a + b).sum().item() == 36
assert partitioning.sharding_of(a) == "" and len(partitioning.shards(a)) == 8
raises(RuntimeError, "invalid device ordinal", lambda: torch.ones(1, device="xla:1"))
