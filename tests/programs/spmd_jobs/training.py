"""Training: run by test_spmd_jobs.py."""

import os

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from raises import raises
from start import mesh, r
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import torch_go_xla
import torch_go_xla.core.xla_model as xm
import torch_go_xla.distributed.parallel_loader as pl
import torch_go_xla.distributed.spmd as xs


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))


torch.manual_seed(1)
batches = [(torch.randn(8, 6), torch.randn(8, 4)) for _ in range(3)]


def train(model, batches):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        xm.optimizer_step(optimizer)  # has nothing to reduce
        torch_go_xla.sync()
        losses.append(loss.item())
    return losses


def equal(m, losses):
    torch.testing.assert_close(losses, want, rtol=1e-5, atol=0)
    for p, q in zip(m.parameters(), reference.parameters()):
        p = p.full_tensor() if isinstance(p, DTensor) else p
        torch.testing.assert_close(p.detach().cpu(), q.detach(), rtol=1e-5, atol=1e-6)


reference = model()
want = train(reference, batches)

# each process reads its rows of every batch
m = model().to("xla")
xs.mark_sharding(m[0].weight, mesh, ("model", None))
xs.mark_sharding(m[2].weight, mesh, (None, "model"))
own = [(x[4 * r : 4 * r + 4], y[4 * r : 4 * r + 4]) for x, y in batches]
spec = xs.ShardingSpec(mesh, ("data", None), minibatch=True)
equal(m, train(m, pl.MpDeviceLoader(own, "xla", input_sharding=spec)))
assert [s.data.size(0) for s in xs.wrap_if_sharded(m[0].weight.detach()).local_shards] == [8, 8]
turned = xs.ShardingSpec(xs.Mesh([2, 3, 0, 1], (2, 2), ("data", "model")), ("data", None), minibatch=True)
raises(RuntimeError, "holds rows", turned.send, own[0][0], "xla")
xm.save(m.state_dict(), os.environ["CHECKPOINT"], global_master=True)

grid = init_device_mesh("xla", (4,))
m = parallelize_module(model().to("xla"), grid, {"0": ColwiseParallel(), "2": RowwiseParallel()})
assert isinstance(m[0].weight, DTensor)
equal(m, train(m, [(x.to("xla"), y.to("xla")) for x, y in batches]))

# each process writes what its devices hold; on another mesh it reads what they are to hold
dist.init_process_group("gloo", init_method="xla://")
dcp.save(m.state_dict(), checkpoint_id=os.environ["CHECKPOINT"] + ".parts")
dcp.async_save(m.state_dict(), checkpoint_id=os.environ["CHECKPOINT"] + ".later").result()
other = model().to("xla")
columns = init_device_mesh("xla", (2, 2), mesh_dim_names=("a", "b"))["b"]
parallelize_module(other, columns, {"0": RowwiseParallel(), "2": ColwiseParallel()})
for kind in (".parts", ".later"):
    nn.init.zeros_(other[0].weight)
    state = other.state_dict()
    dcp.load(state, checkpoint_id=os.environ["CHECKPOINT"] + kind)
    assert state["0.weight"].placements == other[0].weight.placements
    equal(other, want)

# by step, of marked tensors: what is written later is what was there at the call
from torch_go_xla.experimental.distributed_checkpoint import CheckpointManager


def marked(spec):
    t = torch.arange(64.0 * 1024).view(64, 1024).to("xla")
    xs.mark_sharding(t, mesh, spec)
    odd = xs.mark_sharding(torch.arange(10.0).to("xla"), mesh, (("data", "model"),))
    return {"t": t, "odd": odd, "n": torch.ones(())}


manager = CheckpointManager(os.environ["CHECKPOINT"] + ".steps", 1)
run = marked(("data", "model"))
manager.save(0, run)
manager.save_async(1, run)
for t in (run["t"], run["odd"].global_tensor, run["n"]):
    t.add_(1)
manager.join()
manager.save(2, run)
other = marked((None, "data"))
for step in manager.all_steps():
    for t in (other["t"], other["odd"].global_tensor, other["n"]):
        t.zero_()
    manager.restore(step, other)
    late = float(step == 2)
    assert torch.equal(other["t"].cpu(), torch.arange(64.0 * 1024).view(64, 1024) + late), step
    assert other["odd"].cpu().tolist() == (torch.arange(10.0) + late).tolist() and other["n"] == 1 + late
    assert [s.data.shape for s in xs.wrap_if_sharded(other["t"]).local_shards] == [(64, 512)] * 2
