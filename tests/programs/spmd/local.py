"""What the programs of test_spmd.py begin with."""

import torch
from start import ROWS

import torch_go_xla.runtime as xr
from torch_go_xla._backend import partitioning

xr.use_spmd()

torch.manual_seed(0)
x, w = torch.randn(16, 4), torch.randn(4, 6)
part = x.chunk(8)
local = partitioning.full_to_shard(x.to("xla"), ROWS)
groups = [[0, 1, 2, 3], [4, 5, 6, 7]]
mates = lambda i: range(4) if i < 4 else range(4, 8)


def check(got, want, tolerance=1e-5):
    held = partitioning.shards(got)
    assert [s.replica_id for s in held] == list(range(8))
    for i, s in enumerate(held):
        torch.testing.assert_close(s.data, want(i), rtol=tolerance, atol=tolerance)
