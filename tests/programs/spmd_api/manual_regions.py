"""Manual regions: run by test_spmd_api.py."""

import torch
from raises import raises
from start import mesh, spec_of

import torch_go_xla.distributed.spmd as xs
from torch_go_xla import _XLAC

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
