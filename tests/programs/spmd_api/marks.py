"""Marks: run by test_spmd_api.py."""

import copy

import torch
from raises import raises
from start import mesh, spec_of

import torch_go_xla.distributed.spmd as xs
from torch_go_xla import _XLAC

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
