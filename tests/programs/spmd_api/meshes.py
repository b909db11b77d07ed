"""Meshes: run by test_spmd_api.py."""

from raises import raises
from start import mesh

import torch_go_xla.distributed.spmd as xs
from torch_go_xla import _XLAC

assert mesh.shape() == {"data": 2, "model": 4} and mesh.size() == 8 and mesh.get_axis_name_idx("model") == 1
assert xs.Mesh.from_str(str(mesh)).shape() == mesh.shape() and xs.Mesh.from_str("rubbish") is None
assert xs.get_1d_mesh("x").axis_names == ("x",) and list(xs.get_1d_mesh().shape()) == [0]
for words, args in [
    ("global number of devices (8)", (range(4), (4,))),
    ("must match mesh size (4)", (range(8), (2, 2))),
    ("must match mesh dimensions (2)", (range(8), (2, 4), ("a",))),
    ("unique", (range(8), (2, 4), ("a", "a"))),
    ("IDs must be unique", ([0] * 8, (8,))),
    ("less than mesh size", (range(1, 9), (8,))),
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
