"""Random numbers are those of one device: run by test_spmd.py."""

import torch
from start import GRID, HALVES, ROWS

import torch_go_xla.runtime as xr
from torch_go_xla._backend import partitioning


def draw():
    torch.manual_seed(7)
    return [
        torch.rand(16, 8, device="xla"),
        torch.randn(5, 3, device="xla"),
        torch.randperm(20, device="xla"),
        torch.nn.functional.dropout(torch.ones(8, 8, device="xla")),
        torch.randint(9, (8, 2), device="xla"),
    ]


want = [t.cpu() for t in draw()]
xr.use_spmd()
assert all(torch.equal(a.cpu(), b) for a, b in zip(draw(), want))
got = draw()
for t, sharding in zip(got, [ROWS, GRID, "{devices=[8]<=[8]}", HALVES, ROWS]):
    partitioning.annotate_(t, sharding)
assert all(torch.equal(a.cpu(), b) for a, b in zip(got, want))
assert [partitioning.sharding_of(t) for t in got] == [ROWS, GRID, "{devices=[8]<=[8]}", HALVES, ROWS]

local = partitioning.full_to_shard(got[0], ROWS)
noise = torch.rand_like(local) + partitioning.partition_id(local)
first = partitioning.shards(noise)[0].data
assert all(torch.allclose(s.data, first + i) for i, s in enumerate(partitioning.shards(noise)))
