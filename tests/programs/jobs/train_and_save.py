"""Train on four processes, and save."""

import torch
import torch.distributed as dist
from start import n, r
from torch import nn
from torch.distributed.checkpoint import save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from train import checkpoint, equal, mesh, model, sharded, train

from torch_go_xla.debug import metrics as met

want = train(model(), slice(0, 8)).state_dict()
own = slice(8 // n * r, 8 // n * (r + 1))
equal(train(nn.parallel.DistributedDataParallel(model().to("xla")), own).module.state_dict(), want)

m = sharded()
assert m[0].weight.to_local().shape == (16 // n, 6)
equal(train(m, own).state_dict(), want)
save(m.state_dict(), checkpoint_id=checkpoint)

plan = {"0": ColwiseParallel(), "2": RowwiseParallel(), "4": ColwiseParallel(output_layouts=Replicate())}
equal(train(parallelize_module(model().to("xla"), mesh, plan), slice(0, 8)).state_dict(), want)

grid = init_device_mesh("xla", (2, 2), mesh_dim_names=("a", "b"))
whole = torch.arange(32.0).view(8, 4)
t = distribute_tensor(whole, grid, [Shard(0), Shard(1)])
assert t.to_local().tolist() == whole.chunk(2)[r // 2].chunk(2, 1)[r % 2].tolist()
assert torch.equal(t.redistribute(grid, [Shard(1), Replicate()]).to_local().cpu(), whole.chunk(2, 1)[r // 2])
assert torch.equal((t @ t.t()).full_tensor().cpu(), whole @ whole.t())
row = torch.full((2,), float(r), device="xla")
dist.all_reduce(row, group=grid["b"].get_group())
assert row.tolist() == [1.0 if r < 2 else 5.0] * 2
odd = dist.new_group([0, 1, 2])  # the processes do not divide into groups of this size
if r < 3:
    dist.all_reduce(row, group=odd)
    assert row.tolist() == [7.0, 7.0]
assert not met.executed_fallback_ops()
dist.destroy_process_group()
