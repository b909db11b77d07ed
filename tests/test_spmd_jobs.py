"""SPMD over the devices of two processes, against one process on the CPU."""

from __future__ import annotations

import pathlib
import warnings

import jobs
import pytest
import torch
import torch.distributed.checkpoint as dcp
from programs import RAISES

pytestmark = pytest.mark.slow

START = (
    RAISES
    + """
import os
import torch, torch_go_xla
from torch import nn
import torch_go_xla.core.xla_model as xm
import torch_go_xla.distributed.parallel_loader as pl
import torch_go_xla.distributed.spmd as xs
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch_go_xla.runtime as xr
from torch_go_xla import debug

r = xr.process_index()
xr.use_spmd()
mesh = xs.Mesh(range(4), (2, 2), ("data", "model"))
"""
)

VALUES = (
    START
    + """
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
raises(RuntimeError, "all-reduce" if r else "of f32", lambda: xs.mark_sharding_with_gradients(
    a, mesh, ("data", None) if r else (None, "model")).sum(0).cpu())
print("told", flush=True)
os._exit(0)
"""
)


def test_values_and_shards_of_two_processes() -> None:
    printed = jobs.check(VALUES, 2, CPU_NUM_DEVICES="2")
    assert printed == ["told\n"] * 2


TRAINING = (
    START
    + """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

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
"""
)


def test_training_over_two_processes_equals_one(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.pt"
    jobs.check(TRAINING, 2, CPU_NUM_DEVICES="2", CHECKPOINT=str(path))
    state = torch.load(path, weights_only=True)
    assert state["0.weight"].shape == (16, 6) and state["0.weight"].device.type == "cpu"
    parts = tmp_path / "model.pt.parts"
    assert len(list(parts.glob("*.distcp"))) == 2
    for step in range(3):
        sizes = [f.stat().st_size for f in (tmp_path / "model.pt.steps" / str(step)).glob("*.distcp")]
        assert len(sizes) == 2 and all(128 << 10 < size < 144 << 10 for size in sizes), "each has written its half"
    alone = {name: torch.zeros_like(value) for name, value in state.items()}
    with warnings.catch_warnings(action="ignore"):  # there is no process group
        dcp.load(alone, checkpoint_id=parts)
    for name, value in state.items():
        torch.testing.assert_close(alone[name], value, rtol=1e-5, atol=1e-6)
