"""With dtensors: run by test_spmd_api.py."""

import io

import torch
from raises import raises
from start import mesh, spec_of
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import torch_go_xla
import torch_go_xla.distributed.spmd as xs
from torch_go_xla.distributed.spmd import api
from torch_go_xla.distributed.spmd.xla_sharded_tensor import partition_spec_of, placements_of

torch_mesh = init_device_mesh("xla", (2, 4), mesh_dim_names=("data", "model"))
assert str(api.convert_to_xla_mesh(torch_mesh)) == str(mesh) and mesh.get_device_mesh() == torch_mesh
raises(AssertionError, "global number of devices", api.convert_to_xla_mesh, torch_mesh["model"])
assert api.convert_to_xla_partition_spec(torch.ones(2, 2, 2), [Shard(2), Replicate()]) == (None, None, 0)
raises(IndexError, "out of bounds", partition_spec_of, [Shard(2)], 2)
for spec in [("model", None), (("data", "model"), None), (None, ("model", "data"))]:
    value = torch.randn(8, 8)
    t = xs.mark_sharding(value.to("xla"), mesh, spec)
    d = t.to_dtensor()
    assert type(d) is torch_go_xla.distributed.tensor.XlaDTensor and d.placements == placements_of(mesh, spec)
    assert torch.equal(d.full_tensor().cpu(), value) and torch.equal(t.full_tensor().cpu(), value)
    assert distribute_tensor(value, torch_mesh, d.placements)._local_tensor.device.type == "xla"
    assert spec_of(distribute_tensor(value, torch_mesh, d.placements)) == t.sharding_spec
value, other = torch.randn(8, 8), torch.randn(8, 8)
d = distribute_tensor(other, torch_mesh, [Shard(0), Replicate()])
x = xs.wrap_as_sharded_tensor(d)
assert x.partition_spec == (0, None) and x.mesh_shape == (2, 4) and torch.equal(x.cpu(), other)
t = xs.mark_sharding(value.to("xla"), mesh, (None, "model"))
for got in (t @ d, (t + 0) @ d):  # the second does not know its mesh
    assert isinstance(got, DTensor) and not isinstance(got, xs.XLAShardedTensor)
    assert torch.allclose(got.full_tensor().cpu(), value @ other, atol=1e-5)
assert torch.allclose((d @ t).full_tensor().cpu(), other @ value, atol=1e-5)
same = t
t += d
assert t is same and isinstance(t, xs.XLAShardedTensor) and torch.allclose(t.cpu(), value + other)
w = value.to("xla").requires_grad_()
xs.mark_sharding(w, mesh, ("data", None)).to_dtensor().square().sum().full_tensor().backward()
assert torch.allclose(w.grad.cpu(), 2 * value)
p = distribute_tensor(value, torch_mesh, [Shard(0), Replicate()]).requires_grad_()
xs.wrap_as_sharded_tensor(p).square().sum().backward()
assert isinstance(p.grad, DTensor) and torch.allclose(p.grad.full_tensor().cpu(), 2 * value)
t = xs.mark_sharding(value.to("xla"), mesh, ("data", "model"))
again = t.redistribute(mesh, [Replicate(), Shard(0)])
assert again.partition_spec == (1, None) and torch.equal(again.cpu(), value)
assert spec_of(t) == again.sharding_spec == "{devices=[4,1,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}"
raises(ValueError, "Number of placements (1)", t.redistribute, mesh, [Shard(0)])
raises(ValueError, "Placements not available", lambda: (t + 1).placements)
raises(NotImplementedError, "automatic sharding", xs.xla_distribute_module, nn.Linear(2, 2), torch_mesh, xs.auto_policy)
file = io.BytesIO()
torch.save(t, file)
file.seek(0)
back = torch.load(file, weights_only=False)
assert back.sharding_spec == t.sharding_spec and torch.equal(back.cpu(), value)
from torch_go_xla.core import xla_model as xm

file = io.BytesIO()
xm.save({"t": t}, file)
file.seek(0)
assert torch.equal(torch.load(file)["t"], value)
