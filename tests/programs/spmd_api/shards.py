"""Shards: run by test_spmd_api.py."""

import torch
from raises import raises
from start import mesh, spec_of

import torch_go_xla.distributed.spmd as xs
from torch_go_xla import _XLAC

line = xs.get_1d_mesh("x")
value = torch.arange(13)
t = xs.mark_sharding(value.to("xla"), line, ("x",))
for i, s in enumerate(t.local_shards):
    assert s.shard_device == f"CPU:{i}" and s.replica_id == 0 and s.data.shape == (2,) and s.data.device.type == "cpu"
    assert torch.equal(s.unpadded_data, value[s.indices[0]]) and not s.data[s.unpadded_data.numel() :].any()
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
    raises(RuntimeError, "are not the shards of a tensor", make, parts, sharding, shape)
raises(RuntimeError, "7 shards for 8", make, parts[:7], sharding)
