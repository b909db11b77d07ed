"""Local values: run by test_spmd.py."""

import torch
from local import check, local, part, w, x
from raises import raises
from start import COLUMNS, ROWS

import torch_go_xla
import torch_go_xla.runtime as xr
from torch_go_xla._backend import partitioning

xr.use_spmd()

assert local.shape == (2, 4) and partitioning.is_manual(local) and partitioning.sharding_of(local) == "{manual}"
check(local, lambda i: part[i])
assert torch.equal(local.cpu(), part[0]), "reading gives the value of device 0"
y = torch.tanh(local @ w.to("xla")) + 1.5
check(y, lambda i: torch.tanh(part[i] @ w) + 1.5)
check(y.sum() * 2 + partitioning.partition_id(y), lambda i: (torch.tanh(part[i] @ w) + 1.5).sum() * 2 + i, 1e-4)
total = y.sum()
torch_go_xla.sync()
check(total - 1, lambda i: (torch.tanh(part[i] @ w) + 1.5).sum() - 1, 1e-4)

whole = partitioning.shard_to_full(local * 2, ROWS, (16, 4))
assert torch.equal(whole.cpu(), 2 * x) and partitioning.sharding_of(whole) == ROWS and not partitioning.is_manual(whole)
same = partitioning.shard_to_full(torch.ones(2, 4, device="xla"), ROWS, (16, 4))
assert same.tolist() == [[1.0] * 4] * 16, "a tensor that is not manual is the same on every device"
copies = partitioning.full_to_shard(whole, "{replicated}")
check(copies, lambda i: 2 * x)
assert torch.equal(partitioning.shard_to_full(copies, "{replicated}", (16, 4)).cpu(), 2 * x)

z = local.clone()


def change(t, i):
    t.add_(i), t[0].mul_(2), t.view(-1)[3:5].fill_(7), t.t().sub_(1)
    return t


change(z, partitioning.partition_id(z))
check(z, lambda i: change(part[i].clone(), i))
torch_go_xla.sync()
z.mul_(3)
check(z, lambda i: change(part[i].clone(), i) * 3)
partitioning.set_shards_(z, [torch.full((2, 4), float(i)) for i in range(8)])
check(z + 1, lambda i: torch.full((2, 4), i + 1.0))
z.copy_(torch.zeros(2, 4))
assert not partitioning.is_manual(z) and z.tolist() == [[0] * 4] * 2

raises(ValueError, "does not divide dimension 1", partitioning.full_to_shard, x.to("xla"), COLUMNS)
raises(ValueError, "already", partitioning.full_to_shard, local, ROWS)
raises(ValueError, "whose parts have sizes [1, 4]", partitioning.shard_to_full, local, ROWS, (8, 4))
for mark in (partitioning.annotate, partitioning.annotate_):
    raises(ValueError, "shard_to_full", mark, local, "{replicated}")
raises(NotImplementedError, "on each device", torch.linalg.eigvals, local.t() @ local)
