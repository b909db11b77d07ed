"""torch_xla's interface to SPMD, on 8 devices of one process. The oracle is torch on one CPU."""

from __future__ import annotations

import pytest
from programs import RAISES

EIGHT = {"CPU_NUM_DEVICES": "8"}
START = (
    RAISES
    + """
import copy, io, contextlib
import numpy as np
import torch, torch_go_xla
import torch_go_xla.runtime as xr
import torch_go_xla.distributed.spmd as xs
from torch import nn
from torch_go_xla import _XLAC
from torch_go_xla.distributed.spmd import mesh as meshes

spec_of = _XLAC._get_xla_sharding_spec
xr.use_spmd()
mesh = xs.Mesh(range(8), (2, 4), ("data", "model"))
"""
)


def test_meshes(ok) -> None:
    ok(
        START
        + """
assert mesh.shape() == {"data": 2, "model": 4} and mesh.size() == 8 and mesh.get_axis_name_idx("model") == 1
assert xs.Mesh.from_str(str(mesh)).shape() == mesh.shape() and xs.Mesh.from_str("rubbish") is None
assert xs.get_1d_mesh("x").axis_names == ("x",) and list(xs.get_1d_mesh().shape()) == [0]
for words, args in [
    ("global number of devices (8)", (range(4), (4,))), ("must match mesh size (4)", (range(8), (2, 2))),
    ("must match mesh dimensions (2)", (range(8), (2, 4), ("a",))), ("unique", (range(8), (2, 4), ("a", "a"))),
    ("IDs must be unique", ([0] * 8, (8,))), ("less than mesh size", (range(1, 9), (8,))),
]:
    raises(AssertionError, words, xs.Mesh, *args)
for sharding, ids, shape, spec in [
    ("{devices=[2,4]0,1,2,3,4,5,6,7}", range(8), (2, 4), ("data", "model")),
    ("{devices=[4,2]0,4,1,5,2,6,3,7}", range(8), (2, 4), ("model", 0)),
    ("{devices=[1,8]0,4,1,5,2,6,3,7}", range(8), (2, 4), (None, ("model", "data"))),
    ("{devices=[1,4,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}", range(8), (2, 4), (None, "model")),
    ("{devices=[2,4]7,6,5,4,3,2,1,0}", range(7, -1, -1), (2, 4), (0, 1)),
    ("{devices=[8,1]0,1,2,3,4,5,6,7}", range(8), (8, 1), (0, 1)),
    ("{replicated}", range(8), (2, 4), (None, None)),
    ("{replicated}", range(8), (2, 4), ()),
]:
    made = xs.Mesh(ids, shape, ("data", "model")).get_op_sharding(spec)
    assert str(made) == sharding and _XLAC.OpSharding.parse(sharding) == made, (made, sharding)
for words, spec in [("out of bound", (2,)), ("at most once", (0, "data")), ("nested", (((0,),),))]:
    raises(AssertionError, words, mesh.get_op_sharding, spec)
raises(ValueError, "Axis name z is not defined", mesh.get_op_sharding, ("z",))
raises(ValueError, "is not supported in partition spec", mesh.get_op_sharding, (1.5,))
""",
        **EIGHT,
    )


def test_shardings_of_torch_xla(ok) -> None:
    ok(
        START
        + """
S, T = _XLAC.OpSharding, xs.ShardingType
ids = np.arange(8)
for text, args in [
    ("{devices=[2,4]0,1,2,3,4,5,6,7}", (ids.reshape(2, 4).tolist(), [], [], int(T.TILED))),
    (
        "{devices=[2,1,4]0,2,4,6,1,3,5,7 last_tile_dim_replicate}",
        ([], [[0], [1]], [[0, 2, 4, 6], [1, 3, 5, 7]], T.PARTIAL),
    ),
    ("{devices=[4,2]0,4,1,5,2,6,3,7}", ([4, 2], [2, 4], [1, 0], [])),
    ("{devices=[4,1,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}", ([4, 1, 2], [2, 4], [1, 0], [T.REPLICATED])),
    ("{replicated}", ([], [], [], T.REPLICATED)),
    ("{replicated}", ([[1]], [], [], T.TILED)),
    ("{manual}", ([], [], [], T.MANUAL)),
    ("{maximal device=3}", ([3], [], [], T.MAXIMAL)),
]:
    assert str(S(*args)) == text and S.parse(text) == S(*args), (text, S(*args))
assert str(S.parse("{devices=[4,2]<=[2,4]T(1,0)}")) == "{devices=[4,2]0,4,1,5,2,6,3,7}"
assert S.parse("{devices=[2,1,4]<=[8] last_tile_dim_replicate}").copies == 4
raises(ValueError, "rubbish", S.parse, "rubbish")
""",
        **EIGHT,
    )


def test_meshes_of_slices(ok) -> None:
    ok(
        START
        + """
from unittest import mock
assert xs.HybridMesh(ici_mesh_shape=(2, 4)).get_logical_mesh().tolist() == mesh.get_logical_mesh().tolist()
raises(ValueError, "Invalid dcn_mesh_shape", xs.HybridMesh, ici_mesh_shape=(2, 2), dcn_mesh_shape=(2, 1))
places = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0)]
slices = [{"name": f"TPU:{4 * s + i}", "slice_index": s, "coords": p} for s in (0, 1) for i, p in enumerate(places)]
with mock.patch.object(xr, "global_runtime_device_attributes", return_value=slices[::-1]):
    made = xs.HybridMesh(ici_mesh_shape=(2, 2), dcn_mesh_shape=(2, 1)).get_logical_mesh()
    assert made.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    made = xs.HybridMesh(ici_mesh_shape=(1, 4), dcn_mesh_shape=(2, 1)).get_logical_mesh()
    assert sorted(made[0].tolist()) == [0, 1, 2, 3] and made.shape == (2, 4)
    raises(ValueError, "Provide dcn_mesh_shape", xs.HybridMesh, ici_mesh_shape=(2, 4))
    raises(ValueError, "product of mesh_shape", xs.HybridMesh, ici_mesh_shape=(2, 4), dcn_mesh_shape=(2, 1))
# An axis of the mesh follows whole axes of the torus where it can, the last one first.
torus = np.arange(4 * 4 * 2).reshape(4, 4, 2)
assert (meshes.lay_on_torus(torus, (2, 16)) == torus.reshape(16, 2).T).all()
assert (meshes.lay_on_torus(torus, (4, 8)) == torus.transpose(1, 0, 2).reshape(4, 8)).all()
flat = meshes.lay_on_torus(np.arange(16).reshape(4, 4), (2, 2, 4))
assert sorted(flat.flatten().tolist()) == list(range(16)) and flat[0, 0].tolist() == [0, 4, 8, 12]
raises(ValueError, "cannot be a mesh", meshes.lay_on_torus, torus, (3, 2))
""",
        **EIGHT,
    )


def test_marks(ok) -> None:
    ok(
        START
        + """
value = torch.arange(64.0).view(8, 8)
x = value.to("xla")
assert spec_of(x) == "" and _XLAC._get_xla_sharding_type(x) is None and xs.wrap_if_sharded(x) is x
y = xs.mark_sharding(x, mesh, ("model", None))
assert isinstance(y, xs.XLAShardedTensor) and y.global_tensor is x and y.mesh_shape == (2, 4)
assert y.sharding_spec == spec_of(x) == spec_of(y) == "{devices=[4,1,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}"
assert y.sharding_type is xs.ShardingType.PARTIAL and isinstance(xs.wrap_if_sharded(x), xs.XLAShardedTensor)
z = (y @ y).relu()
assert isinstance(z, xs.XLAShardedTensor) and "XLAShardedTensor" in str(z) and torch.equal(z.cpu(), value @ value)
assert type(z.cpu()) is torch.Tensor and z.mesh_shape is None and z.sum().item() == (value @ value).sum().item()
same = y
y += 1
assert y is same and torch.equal(x.cpu(), value + 1) and spec_of(x) == y.sharding_spec
y[2:4].mul_(2)
assert torch.equal(x.cpu()[2:4], (value[2:4] + 1) * 2) and torch.equal(y.t()[0].cpu(), x[:, 0].cpu())
assert spec_of(x.clone()) == spec_of(x) == spec_of(copy.deepcopy(x)) and spec_of(x[:4].clone()) == ""
twin = copy.deepcopy(y)
assert twin.sharding_spec == y.sharding_spec and twin.partition_spec == ("model", None)
raises(RuntimeError, "must be cleared first", xs.mark_sharding, x, mesh, (0, 1))
xs.mark_sharding(x, mesh, (1, None))
xs.annotate_custom_sharding(x, mesh, (0, 1))
assert spec_of(x) == "{devices=[2,4]0,1,2,3,4,5,6,7}" and torch.equal(x[0].cpu(), value[0] + 1)
assert xs.clear_sharding(y) is x and spec_of(x) == ""
raises(AssertionError, "length (1) should be equal to the input rank (2)", xs.mark_sharding, x, mesh, (0,))
one = xs.mark_sharding(torch.tensor(1.0).to("xla"), mesh, ())
assert one.sharding_spec == "{replicated}" and one.item() == 1
raises(RuntimeError, "expected an xla tensor", xs.mark_sharding, torch.ones(2), mesh, (None,))
""",
        **EIGHT,
    )


def test_shards(ok) -> None:
    ok(
        START
        + """
line = xs.get_1d_mesh("x")
value = torch.arange(13)
t = xs.mark_sharding(value.to("xla"), line, ("x",))
for i, s in enumerate(t.local_shards):
    assert s.shard_device == f"CPU:{i}" and s.replica_id == 0 and s.data.shape == (2,) and s.data.device.type == "cpu"
    assert torch.equal(s.unpadded_data, value[s.indices[0]]) and not s.data[s.unpadded_data.numel():].any()
halves = xs.mark_sharding(torch.ones(4, 4).to("xla"), mesh, ("data", None)).local_shards
assert [s.replica_id for s in halves] == [0, 1, 2, 3] * 2 and halves[5].indices == [slice(2, 4, 1), slice(0, 4, 1)]
whole = xs.mark_sharding(value.to("xla"), line, (None,))
for i, s in enumerate(whole.local_shards):
    assert s.indices is ... and s.replica_id == i and torch.equal(s.data, value)
shards = t.local_shards
for s in shards:
    s.unpadded_data = -s.unpadded_data
t.load_local_shards_(shards[::-1])
assert torch.equal(t.cpu(), -value)
raises(RuntimeError, "one shard for each of 8", t.load_local_shards_, shards[1:])
raises(RuntimeError, "one shard for each of 8", t.load_local_shards_, shards[1:] + shards[1:2])
raises(RuntimeError, "is not sharded", whole.load_local_shards_, whole.local_shards)
shards[3].data = torch.zeros(3, dtype=torch.long)
raises(RuntimeError, "the shard of device 3 must have the shape (2,)", t.load_local_shards_, shards)
make, sharding = _XLAC._global_tensor_from_cpu_shards, line.get_op_sharding(("x",))
parts = [torch.arange(2) + 2 * i for i in range(8)]
assert make(parts, sharding).tolist() == list(range(16))
g = make(parts, sharding, (13,))
assert g.tolist() == list(range(13)) and spec_of(g) == str(sharding)
for shape in ((17,), (8,), (4, 4)):
    raises(RuntimeError, "no shards of a tensor", make, parts, sharding, shape)
raises(RuntimeError, "7 shards for 8", make, parts[:7], sharding)
""",
        **EIGHT,
    )


def test_gradients(ok) -> None:
    ok(
        START
        + """
w0, x0 = torch.randn(8, 8), torch.randn(4, 8)
want = w0.clone().requires_grad_()
(x0 @ want).square().sum().backward()
w = w0.to("xla").requires_grad_()
y = xs.mark_sharding(w, mesh, ("data", "model"))
(x0.to("xla") @ y).square().sum().backward()
assert type(w.grad) is torch.Tensor and torch.allclose(w.grad.cpu(), want.grad, rtol=1e-5, atol=1e-5)
v = w0.to("xla").requires_grad_()
z = xs.mark_sharding_with_gradients(v, mesh, (("model", "data"), None))
(x0.to("xla") @ z).square().sum().backward()
assert spec_of(v) == "" and spec_of(z) == spec_of(v.grad) == "{devices=[8,1]0,4,1,5,2,6,3,7}"
assert torch.allclose(v.grad.cpu(), want.grad, rtol=1e-5, atol=1e-5)
leaf = xs.XLAShardedTensor(w0.to("xla"), requires_grad=True)
(leaf * 2).sum().backward()
assert leaf.is_leaf and leaf.grad.cpu().tolist() == [[2.0] * 8] * 8
p = nn.Parameter(xs.mark_sharding(w0.to("xla"), mesh, ("data", None)))
optimizer = torch.optim.SGD([p], lr=0.5)
p.sum().backward()
optimizer.step()
assert torch.allclose(p.detach().cpu(), w0 - 0.5) and p.partition_spec == ("data", None)
assert isinstance(copy.deepcopy(p), nn.Parameter) and torch.equal(copy.deepcopy(p).cpu(), p.cpu())
""",
        **EIGHT,
    )


def test_seeing_shardings(ok) -> None:
    out = ok(
        START
        + """
import sys
x = torch.zeros(8, 6).to("xla")
xs.mark_sharding(x, mesh, ("data", "model"))
xs.debugging.visualize_tensor_sharding(x, use_color=False)
sys.modules["rich"] = sys.modules["rich.align"] = None  # as if not installed
for text in ("{devices=[2,1,4]0,1,2,3,4,5,6,7 last_tile_dim_replicate}", "{replicated}", "", "{maximal device=3}"):
    print(xs.debugging.visualize_sharding(text))
raises(ValueError, "rubbish", xs.debugging.visualize_sharding, "rubbish")
""",
        **EIGHT,
    )
    for device in range(8):
        assert f"CPU {device}" in out
    for text in ("CPU [0, 1, 2, 3] ", "CPU [4, 5, 6, 7]", "CPU [0, 1, 2, 3, 4, 5, 6, 7]", "CPU [3]"):
        assert text in out


@pytest.mark.slow
def test_marks_in_compiled_functions(ok) -> None:
    ok(
        START
        + """
from torch_go_xla.debug import metrics as met

mark, how = torch.ops.xla.dynamo_mark_sharding, (list(range(8)), [8], "('model',)", "('model', None)")
w, x = (torch.randn(8, 4, device="xla", requires_grad=True) for _ in range(2))

def f(x, w):
    mark(w, *how)  # its result is not used
    return mark(x @ w.t(), *how) * 2

compiled = torch.compile(f, backend="openxla", fullgraph=True)
for _ in range(3):
    x.grad = None
    out = compiled(x, w)
    out.sum().backward()
    for t in (w, out):
        assert spec_of(t) == "{devices=[8,1]0,1,2,3,4,5,6,7}"
    torch.testing.assert_close(out.cpu(), x.cpu() @ w.cpu().t() * 2)
    torch.testing.assert_close(x.grad.cpu(), 2 * torch.ones(8, 8) @ w.detach().cpu())
    torch_go_xla.sync()
assert met.counter_value("ExecuteReplicated") and met.metric_data("ExecuteReplicatedTime")[0] > 0
assert torch.equal(mark(torch.ones(8, 2), *how), torch.ones(8, 2)), "elsewhere it is nothing"
raises(ValueError, "Axis name z", mark, w, *how[:3], "('z', None)")
""",
        **EIGHT,
    )


def test_manual_regions(ok) -> None:
    ok(
        START
        + """
value = torch.arange(64.0).view(8, 8)
x = value.to("xla")
raises(RuntimeError, "has no sharding", _XLAC._spmd_full_to_shard_shape, x)
raises(RuntimeError, "not computed", xs._mark_manual_sharding, x)
to_full = _XLAC._spmd_shard_to_full_shape
raises(RuntimeError, "one value for all", to_full, x + 1, mesh.get_op_sharding((0, 1)), (8, 8), x.dtype)
raises(ValueError, "no global mesh", xs.enable_manual_sharding, x, (0, 1))
xs.set_global_mesh(mesh)
local = xs.enable_manual_sharding(x, ("data", "model"))
assert local.shape == (4, 2) and local.sharding_type is xs.ShardingType.MANUAL and local.sharding_spec == "{manual}"
assert spec_of(x) == "{devices=[2,4]0,1,2,3,4,5,6,7}"
least = xs.disable_manual_sharding(local - local.amin(), ("data", "model"), (8, 8))  # of each shard by itself
want = torch.cat([torch.cat([t - t.min() for t in rows.split(2, 1)], 1) for rows in value.split(4)])
assert torch.equal(least.cpu(), want)
marked = xs._mark_manual_sharding(x + 1)
assert marked.sharding_spec == "{manual}"
full = to_full(marked, mesh.get_op_sharding((None, None)), (8, 8), torch.float32)
assert torch.equal(full.cpu(), value + 1) and type(full) is torch.Tensor
""",
        **EIGHT,
    )


def test_with_dtensors(ok) -> None:
    ok(
        START
        + """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
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
""",
        **EIGHT,
    )
