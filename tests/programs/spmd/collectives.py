"""Collectives: run by test_spmd.py."""

import torch
from local import check, groups, local, mates, part, x
from raises import raises
from start import COLUMNS, ROWS

import torch_go_xla.runtime as xr
from torch_go_xla._backend import partitioning

xr.use_spmd()

import functools

from torch_go_xla import debug

pile = lambda i: torch.stack([part[j] for j in mates(i)])
check(partitioning.all_reduce(local, "sum", groups), lambda i: pile(i).sum(0))
check(partitioning.all_reduce(local, "avg", groups), lambda i: pile(i).mean(0))
check(partitioning.all_reduce(local, "max", groups), lambda i: pile(i).amax(0))
check(partitioning.all_reduce(local, "min", groups), lambda i: pile(i).amin(0))
check(partitioning.all_reduce(local, "product", groups), lambda i: pile(i).prod(0))
check(partitioning.all_reduce(local > 0, "bor", groups), lambda i: (pile(i) > 0).any(0))
check(partitioning.all_reduce(local > 0, "band", groups), lambda i: (pile(i) > 0).all(0))
bits = (local * 100).int()
for op, fold in (("band", torch.bitwise_and), ("bor", torch.bitwise_or), ("bxor", torch.bitwise_xor)):
    folded = lambda i: functools.reduce(fold, (pile(i) * 100).int())
    check(partitioning.all_reduce(bits, op, groups), folded)
    check(partitioning.reduce_scatter(bits, op, 1, groups), lambda i: folded(i)[:, i % 4, None])
half, turned = local.bfloat16(), [[7, 6, 5, 4, 3, 2, 1, 0]]
check(partitioning.all_reduce(half, "max", turned), lambda i: x.view(8, 2, 4).amax(0).bfloat16())
check(partitioning.all_gather(local, 0, groups), lambda i: torch.cat([part[j] for j in mates(i)]))
check(partitioning.all_gather(local, -1, [[0, 2, 4, 6], [1, 3, 5, 7]]), lambda i: torch.cat(part[i % 2 :: 2], 1))
check(partitioning.reduce_scatter(local, "sum", 1, groups), lambda i: pile(i).sum(0)[:, i % 4, None])
pairs = [[i, i + 4] for i in range(4)]
check(partitioning.reduce_scatter(local, "avg", -2, pairs), lambda i: (part[i % 4] + part[i % 4 + 4])[i // 4, None] / 2)
check(partitioning.all_to_all(local, 1, 0, groups), lambda i: torch.cat([part[j][:, i % 4, None] for j in mates(i)]))
check(partitioning.collective_permute(local, [(i, (i + 1) % 8) for i in range(8)]), lambda i: part[(i - 1) % 8])
check(partitioning.collective_permute(local, [(0, 1)]), lambda i: part[0] if i == 1 else torch.zeros(2, 4))
check(partitioning.partition_id(local), lambda i: torch.tensor(i))
check(partitioning.all_reduce(torch.ones(3, device="xla"), "sum", groups), lambda i: torch.full((3,), 4.0))

everybody = [list(range(8))]
raises(ValueError, "groups of 2 devices", partitioning.all_reduce, local, "sum", [[0, 1]])
raises(ValueError, "of one size", partitioning.all_reduce, local, "sum", [[0, 1, 2], [3, 4, 5, 6, 7]])
raises(ValueError, "each of 8 devices once", partitioning.all_reduce, local, "sum", [[0, 1, 2, 3], [4, 5, 6, 6]])
raises(ValueError, "each of 8 devices once", partitioning.all_gather, local, 0, [[0, 8]])
raises(RuntimeError, "non-integral", partitioning.all_reduce, local, "band", everybody)
raises(ValueError, "xor", partitioning.all_reduce, local, "xor", everybody)
raises(RuntimeError, "average", partitioning.all_reduce, local.int(), "avg", everybody)
raises(RuntimeError, "does not divide by 4", partitioning.reduce_scatter, local, "sum", 0, groups)
raises(IndexError, "Dimension out of range", partitioning.all_gather, local, 3, groups)
raises(RuntimeError, "needs a tensor that has one", partitioning.all_gather, local.sum(), 0, groups)
raises(ValueError, "once at most", partitioning.collective_permute, local, [(0, 1), (2, 1)])

kept = []
found = debug.collectives(lambda: kept.append(partitioning.all_gather(local, 0, groups)))
assert [(c.kind, c.shapes, c.bytes, c.groups) for c in found] == [
    ("all-gather", ("f32[8,4]",), 128, ((0, 1, 2, 3), (4, 5, 6, 7)))
]
found = debug.collectives(lambda: kept.append(partitioning.collective_permute(local, [(0, 1), (1, 0)])))
assert [(c.kind, c.groups) for c in found] == [("collective-permute", ((0, 1), (1, 0)))]
a, b = torch.randn(16, 32).to("xla"), torch.randn(32, 8).to("xla")
partitioning.annotate_(a, COLUMNS), partitioning.annotate_(b, ROWS)
found = debug.collectives(lambda: kept.append(partitioning.annotate(a @ b, "{replicated}")))
assert [(c.kind, c.shapes) for c in found] == [("all-reduce", ("f32[16,8]",))], found
assert debug.collectives(lambda: kept.append(a + 1)) == []
