"""Views and writes: run by test_spmd.py."""

import copy

import torch
from start import GRID, ROWS

import torch_go_xla
import torch_go_xla.runtime as xr
from torch_go_xla._backend import partitioning

xr.use_spmd()

want = torch.arange(15.0).view(5, 3)
x = want.to("xla")
partitioning.annotate_(x, "{devices=[4,2]<=[8]}")


def step(f):
    f(want), f(x)
    assert torch.equal(x.cpu(), want), (f, x, want)
    assert partitioning.sharding_of(x) == "{devices=[4,2]<=[8]}"


for f in (
    lambda t: t.add_(1),
    lambda t: t.view(torch.int32).add_(1),
    lambda t: t[1:3].mul_(2),
    lambda t: t.view(-1).sub_(3),
    lambda t: t.t().add_(torch.ones(5, device=t.device)),
    lambda t: t[::2, 1].zero_(),
    lambda t: t.copy_(t.flip(0)),
    lambda t: t.view(3, 5).copy_(t.view(3, 5) * 2),
    lambda t: t.index_fill_(0, torch.tensor([1], device=t.device), 4),
):
    step(f)
assert torch.equal(x.t().cpu(), want.t()) and torch.equal(x[1:].sum(0).cpu(), want[1:].sum(0))
partitioning.annotate_(x[1:3], "{devices=[2,1,4]<=[8] last_tile_dim_replicate}")  # of a part: its present value only
assert torch.equal(x.cpu(), want) and partitioning.sharding_of(x[1:3]) == ""
pending = x * 2
partitioning.annotate_(pending, ROWS)
assert partitioning.sharding_of(pending) == ROWS and torch.equal(pending.cpu(), want * 2)
assert partitioning.sharding_of(pending) == ROWS
blank = torch.empty(8, 2, device="xla")
partitioning.annotate_(blank, ROWS)
torch_go_xla.sync()
assert torch_go_xla._XLAC._describe(blank)["state"] == "empty"  # a loader's thread may be about to fill it
assert partitioning.shards(blank)[7].data.tolist() == [[0, 0]] and blank.tolist() == [[0, 0]] * 8
for write in (lambda t: t[1].fill_(2), lambda t: t.t().copy_(torch.full((2, 8), 2.0))):
    other = torch.empty(8, 2, device="xla")
    partitioning.annotate_(other, ROWS)
    write(other)
    torch_go_xla.sync()
    assert partitioning.sharding_of(other) == ROWS and other[1].tolist() == [2, 2]
    assert len(partitioning.shards(other)[0].data) == 1
blank.fill_(3)
assert blank.tolist() == [[3, 3]] * 8 and partitioning.sharding_of(blank) == ROWS
partitioning.clear_(blank)
assert partitioning.sharding_of(blank) == "" and blank.tolist() == [[3, 3]] * 8
assert partitioning.shards(blank)[0].data.shape == (8, 2)
whole = torch.ones(5, 2, device="xla")
partitioning.annotate_(whole, ROWS)
assert partitioning.sharding_of(copy.deepcopy(whole)) == ROWS
copies = whole.clone(), whole.tile((1, 1)), whole + 1  # results that are a parameter as it stands
assert [c.sum().item() for c in copies] == [10, 10, 20]
odd = torch.tensor([[1.0, 5.0], [float("nan"), 2.0], [-3.0, 4.0]])
mine = odd.to("xla")
partitioning.annotate_(mine, ROWS)
for f in (lambda t: t.amax(0), lambda t: t.amin(0), lambda t: t.max(), lambda t: t.max(0)[1], lambda t: t.aminmax()[0]):
    torch.testing.assert_close(f(mine).cpu(), f(odd), equal_nan=True)
w = torch.ones(4, 8, device="xla", requires_grad=True)
(partitioning.annotate(w * 2, GRID) * 3).sum().backward()
assert w.grad.tolist() == [[6.0] * 8] * 4
