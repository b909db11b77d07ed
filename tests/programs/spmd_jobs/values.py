"""Values: run by test_spmd_jobs.py."""

import os

import torch
from raises import raises
from start import mesh, r
from torch import nn

import torch_go_xla.core.xla_model as xm
import torch_go_xla.distributed.spmd as xs
import torch_go_xla.runtime as xr
from torch_go_xla import debug

assert (xr.global_runtime_device_count(), xr.addressable_runtime_device_count()) == (4, 2)
assert (xr.global_device_count(), xr.addressable_device_count(), xr.process_count()) == (2, 1, 2)
whole = torch.arange(32.0).view(8, 4)
t = whole.to("xla")
shards = xs.mark_sharding(t, mesh, ("data", "model")).local_shards
assert [s.shard_device for s in shards] == [f"CPU:{2 * r}", f"CPU:{2 * r + 1}"]
assert [s.data.tolist() for s in shards] == [p.tolist() for p in whole.chunk(2)[r].chunk(2, 1)]
assert torch.equal(t.cpu(), whole) and torch.equal((t @ t.t()).cpu(), whole @ whole.t())
assert t.sum().item() == whole.sum().item() and str(t[5]) == str(whole[5]).replace(")", ", device='xla:0')")
xs.clear_sharding(t)
assert torch.equal(t.cpu(), whole)
xs.mark_sharding(t, mesh, (None, ("model", "data")))
t[1:3] += 1
whole[1:3] += 1
assert torch.equal(t.cpu(), whole)
odd = xs.mark_sharding(torch.arange(10.0).view(5, 2).to("xla"), mesh, (("data", "model"), None))
parts = [[[0, 1], [2, 3]], [[4, 5], [6, 7]], [[8, 9]], []]
assert [s.unpadded_data.tolist() for s in odd.local_shards] == parts[2 * r :][:2]
assert odd.cpu().tolist() == torch.arange(10.0).view(5, 2).tolist()
shards = odd.local_shards
for s in shards:
    s.data += 100
odd.load_local_shards_(shards)
assert odd.cpu().tolist() == (torch.arange(10.0).view(5, 2) + 100).tolist()
raises(RuntimeError, "one shard for each of 2 devices", odd.load_local_shards_, shards[:1])

torch.manual_seed(7)
a = torch.rand(8, 4, device="xla")
torch.manual_seed(7)
b = xs.mark_sharding(torch.empty(8, 4, device="xla"), mesh, ("data", "model")).global_tensor.uniform_()
assert torch.equal(a.cpu(), b.cpu())
found = debug.collectives(lambda: xs.mark_sharding_with_gradients(a, mesh, ("data", None)).sum().item())
assert "all-reduce" in [c.kind for c in found], found
raises(RuntimeError, "one value for all processes", xm.all_reduce, "sum", a)
raises(RuntimeError, "one value for all processes", xm.broadcast_master_param, nn.Linear(2, 2).to("xla"))
raises(AssertionError, "must match the global number", xs.Mesh, range(2), (2,))

local = xs.enable_manual_sharding(a, ("data", "model"), mesh=mesh)
back = xs.disable_manual_sharding(local * 2, ("data", "model"), (8, 4), mesh=mesh)
torch.testing.assert_close(back.cpu(), a.cpu() * 2)

# what does not fit what the others do
if r == 0:
    a = a.view(4, 8)
raises(
    RuntimeError,
    "all-reduce" if r else "of f32",
    lambda: xs.mark_sharding_with_gradients(a, mesh, ("data", None) if r else (None, "model")).sum(0).cpu(),
)
print("told", flush=True)
os._exit(0)
