"""Each device is sent its shard: run by test_spmd.py."""

import torch
from raises import raises
from start import COLUMNS, GRID, HALVES, ROWS

import torch_go_xla
import torch_go_xla.runtime as xr
from torch_go_xla._backend import partitioning

xr.use_spmd()

torch.manual_seed(0)
for sizes, sharding in [
    ((8, 4), ROWS),
    ((4, 16), COLUMNS),
    ((4, 8), GRID),
    ((6, 3), HALVES),
    ((5, 3), ROWS),
    ((5, 3), GRID),
    ((8, 8), "{devices=[2,4]<=[4,2]T(1,0)}"),
    ((4, 4), "{devices=[4,2]7,6,5,4,3,2,1,0}"),
    ((9,), "{devices=[8]<=[8]}"),
    ((2, 2), "{replicated}"),
    ((2, 2), "{maximal device=5}"),
    ((0, 4), GRID),
]:
    for dtype in (torch.float32, torch.int64, torch.bool, torch.bfloat16, torch.complex64):
        value = (torch.randn(sizes) * 9).to(dtype)
        x = value.to("xla")
        before = torch_go_xla.live_bytes()
        partitioning.annotate_(x, sharding)
        held = partitioning.shards(x)
        assert torch.equal(x.cpu(), value), (sizes, sharding, dtype)
        for s in held:
            assert torch.equal(s.data, value[s.index]), (sizes, sharding, s)
        owners = [s for s in held if s.replica_id == 0]
        assert sum(s.data.numel() for s in owners) == value.numel()
        if sharding in (GRID, ROWS, COLUMNS) and sizes in ((8, 4), (4, 16), (4, 8)):
            assert torch_go_xla.live_bytes() - before == value.nbytes - 8 * value.nbytes, "the copies are gone"
        told = partitioning.sharding_of(x)
        x.copy_(value)  # an upload keeps what the storage was told
        assert torch.equal(x.cpu(), value) and partitioning.sharding_of(x) == told != ""
        partitioning.set_shards_(x, [s.data for s in held])
        assert torch.equal(x.cpu(), value)
x = torch.zeros(4, 2).to("xla")
partitioning.annotate_(x, "{devices=[4,1,2]<=[8] last_tile_dim_replicate}")
partitioning.set_shards_(x, [torch.full((1, 2), float(i // 2)) for i in range(8)])
assert x.tolist() == [[0, 0], [1, 1], [2, 2], [3, 3]]
raises(ValueError, "7 shards for 8", partitioning.set_shards_, x, [torch.zeros(1, 2)] * 7)
raises(ValueError, "holds a shard of sizes [1, 2]", partitioning.set_shards_, x, [torch.zeros(2, 2)] * 8)
