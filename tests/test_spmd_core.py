"""SPMD: sharded values, programs partitioned over 8 devices of one process, against the same on one CPU."""

from __future__ import annotations

from programs import RAISES

START = (
    RAISES
    + """
import copy
import torch, torch_go_xla
from torch import nn
import torch_go_xla.runtime as xr
from torch_go_xla._backend import partitioning
from torch_go_xla._core import core

ROWS, COLUMNS, GRID = "{devices=[8,1]<=[8]}", "{devices=[1,8]<=[8]}", "{devices=[2,4]<=[8]}"
HALVES = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"
"""
)
SPMD = START + "xr.use_spmd()\n"
EIGHT = {"CPU_NUM_DEVICES": "8"}


def test_one_device_of_all(ok) -> None:
    ok(
        START
        + """
a = torch.arange(6.0).to("xla")
b = a + 1
assert not xr.is_spmd() and partitioning.num_devices() == 8 and torch_go_xla.device_count() == 8
raises(RuntimeError, "use_spmd", partitioning.annotate, a, "{replicated}")
raises(RuntimeError, "use_spmd", partitioning.annotate_, a, "{replicated}")
xr.use_spmd()
xr.use_spmd()
assert xr.is_spmd() and partitioning.num_devices() == 8 == xr.global_runtime_device_count()
assert torch_go_xla.device_count() == 1
assert a.tolist() == [0, 1, 2, 3, 4, 5] and b.tolist() == [1, 2, 3, 4, 5, 6] and (a + b).sum().item() == 36
assert partitioning.sharding_of(a) == "" and len(partitioning.shards(a)) == 8
raises(RuntimeError, "invalid device ordinal", lambda: torch.ones(1, device="xla:1"))
""",
        **EIGHT,
    )


def test_tensors_on_several_devices_are_refused(ok) -> None:
    ok(
        START
        + """
a, b = torch.ones(2).to("xla:0"), torch.ones(2).to("xla:3")
raises(RuntimeError, "xla:3", xr.use_spmd)
assert not xr.is_spmd() and (a * 2).tolist() == [2, 2] and (b * 3).tolist() == [3, 3]
del b
xr.use_spmd()
assert (a * 2).tolist() == [2, 2]
""",
        **EIGHT,
    )


def test_one_device_is_enough(ok) -> None:
    ok(
        SPMD
        + """
x = torch.arange(6.0).view(2, 3).to("xla")
partitioning.annotate_(x, "{devices=[1,1]0}")
y = partitioning.annotate(x @ x.t(), "{replicated}")
assert y.tolist() == [[5, 14], [14, 50]] and len(partitioning.shards(y)) == 1
raises(ValueError, "more devices than there are: 1", partitioning.annotate, x, "{devices=[2,1]<=[2]}")
""",
        CPU_NUM_DEVICES="1",
    )


def test_each_device_is_sent_its_shard(ok) -> None:
    ok(
        SPMD
        + """
torch.manual_seed(0)
for sizes, sharding in [
    ((8, 4), ROWS), ((4, 16), COLUMNS), ((4, 8), GRID), ((6, 3), HALVES), ((5, 3), ROWS), ((5, 3), GRID),
    ((8, 8), "{devices=[2,4]<=[4,2]T(1,0)}"), ((4, 4), "{devices=[4,2]7,6,5,4,3,2,1,0}"), ((9,), "{devices=[8]<=[8]}"),
    ((2, 2), "{replicated}"), ((2, 2), "{maximal device=5}"), ((0, 4), GRID),
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
""",
        **EIGHT,
    )


def test_bad_shardings(ok) -> None:
    ok(
        SPMD
        + """
x = torch.zeros(5, 3).to("xla")
for mark in (partitioning.annotate, partitioning.annotate_):
    raises(ValueError, "names more devices than there are: 8", mark, x, "{devices=[4,4]<=[16]}")
    raises(ValueError, "names 4 of 8 devices", mark, x, "{devices=[2,2]<=[4]}")
    raises(ValueError, "is for 1 dimension(s), the tensor has sizes [5, 3]", mark, x, "{devices=[8]<=[8]}")
    raises(ValueError, "rubbish", mark, x, "rubbish")
    raises(ValueError, "manual", mark, x, "{manual}")
    raises(RuntimeError, "expected an xla tensor", mark, torch.zeros(2), ROWS)
assert x.tolist() == torch.zeros(5, 3).tolist()
""",
        **EIGHT,
    )


def test_views_and_writes(ok) -> None:
    ok(
        SPMD
        + """
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
""",
        **EIGHT,
    )


def test_training_is_as_on_one_device(ok) -> None:
    ok(
        SPMD
        + """
def train(device):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 8)).to(device)
    if device == "xla":
        partitioning.annotate_(model[0].weight, ROWS)
        partitioning.annotate_(model[0].bias, "{devices=[8]<=[8]}")
        partitioning.annotate_(model[2].weight, COLUMNS)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    torch.manual_seed(2)
    losses, counts = [], []
    for _ in range(10):
        x, y = torch.randn(4, 16).to(device), torch.randn(4, 8).to(device)
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss)
        if device == "xla":
            torch_go_xla.sync(wait=True)  # what a launch counts is counted as it runs
            counts.append((core.counters()["UncachedCompile"], core.counters().get("DonatedBuffers", 0)))
    return torch.stack([l.detach().cpu() for l in losses]), model, optimizer, counts

want, plain, _, _ = train("cpu")
got, model, optimizer, counts = train("xla")
assert torch.allclose(got, want, rtol=1e-5)
for a, b in zip(model.parameters(), plain.parameters()):
    assert torch.allclose(a.detach().cpu(), b.detach(), rtol=1e-5, atol=1e-6)
assert [partitioning.sharding_of(p) for p in model.parameters()] == [ROWS, "{devices=[8]<=[8]}", COLUMNS, ""]
state = optimizer.state[model[0].weight]["exp_avg"]
assert partitioning.sharding_of(state) == ROWS, "the compiler shards the optimizer's state as the weights"
compiles, donated = zip(*counts)
assert len(set(compiles[1:])) == 1, "from the second step on it is one program"
assert {b - a for a, b in zip(donated[1:], donated[2:])} == {12}, "4 parameters and their moments are updated in place"
""",
        **EIGHT,
    )


LOCAL = (
    SPMD
    + """
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
"""
)


def test_local_values(ok) -> None:
    ok(
        LOCAL
        + """
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
""",
        **EIGHT,
    )


def test_ops_of_local_values(ok) -> None:
    ok(
        LOCAL
        + """
import torch.nn.functional as F
for f in (
    lambda t: t.softmax(-1),
    lambda t: t.sort(-1)[1],
    lambda t: t.topk(2)[0],
    lambda t: t.cumsum(0),
    lambda t: t.argmax(-1),
    lambda t: t[:, torch.tensor([2, 0], device=t.device)],
    lambda t: t.index_put((torch.tensor([1], device=t.device),), torch.tensor(5.0, device=t.device)),
    lambda t: F.layer_norm(t, (4,)),
    lambda t: torch.cat([t, torch.ones(1, 4, device=t.device)]),
    lambda t: torch.where(t > 0, t, 0.0),
    lambda t: F.conv1d(t[None], torch.ones(3, 2, 2, device=t.device)),
    lambda t: F.scaled_dot_product_attention(t[None], t[None], t[None], is_causal=True),
    lambda t: F.cross_entropy(t, torch.tensor([1, 2], device=t.device)),
    lambda t: t.scatter_add(1, torch.tensor([[0, 1], [2, 2]], device=t.device), torch.ones(2, 2, device=t.device)),
    lambda t: F.max_pool1d(t[None], 2),
    lambda t: torch.fft.fft(t).abs(),
    lambda t: t.var(0),
    lambda t: F.gelu(t) + torch.arange(4, device=t.device),
    lambda t: F.embedding(torch.tensor([0, 1, 1], device=t.device), t),
):
    check(f(local), lambda i: f(part[i]), 1e-4)

class Entry(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        return partitioning.full_to_shard(t, ROWS)

    @staticmethod
    def backward(ctx, grad):
        return partitioning.shard_to_full(grad, ROWS, (16, 4))

leaf = x.to("xla").requires_grad_()
(Entry.apply(leaf).exp() * 2).sum().backward()
torch.testing.assert_close(leaf.grad.cpu(), 2 * x.exp())
""",
        **EIGHT,
    )


def test_collectives(ok) -> None:
    ok(
        LOCAL
        + """
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
check(partitioning.all_gather(local, -1, [[0, 2, 4, 6], [1, 3, 5, 7]]), lambda i: torch.cat(part[i % 2::2], 1))
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
    ("all-gather", ("f32[8,4]",), 128, ((0, 1, 2, 3), (4, 5, 6, 7)))]
found = debug.collectives(lambda: kept.append(partitioning.collective_permute(local, [(0, 1), (1, 0)])))
assert [(c.kind, c.groups) for c in found] == [("collective-permute", ((0, 1), (1, 0)))]
a, b = torch.randn(16, 32).to("xla"), torch.randn(32, 8).to("xla")
partitioning.annotate_(a, COLUMNS), partitioning.annotate_(b, ROWS)
found = debug.collectives(lambda: kept.append(partitioning.annotate(a @ b, "{replicated}")))
assert [(c.kind, c.shapes) for c in found] == [("all-reduce", ("f32[16,8]",))], found
assert debug.collectives(lambda: kept.append(a + 1)) == []
""",
        **EIGHT,
    )


def test_random_numbers_are_those_of_one_device(ok) -> None:
    ok(
        START
        + """
def draw():
    torch.manual_seed(7)
    return [torch.rand(16, 8, device="xla"), torch.randn(5, 3, device="xla"), torch.randperm(20, device="xla"),
            torch.nn.functional.dropout(torch.ones(8, 8, device="xla")), torch.randint(9, (8, 2), device="xla")]
want = [t.cpu() for t in draw()]
xr.use_spmd()
assert all(torch.equal(a.cpu(), b) for a, b in zip(draw(), want))
got = draw()
for t, sharding in zip(got, [ROWS, GRID, "{devices=[8]<=[8]}", HALVES, ROWS]):
    partitioning.annotate_(t, sharding)
assert all(torch.equal(a.cpu(), b) for a, b in zip(got, want))
assert [partitioning.sharding_of(t) for t in got] == [ROWS, GRID, "{devices=[8]<=[8]}", HALVES, ROWS]
"""
        + """
local = partitioning.full_to_shard(got[0], ROWS)
noise = torch.rand_like(local) + partitioning.partition_id(local)
first = partitioning.shards(noise)[0].data
assert all(torch.allclose(s.data, first + i) for i, s in enumerate(partitioning.shards(noise)))
""",
        **EIGHT,
    )


STORED = (
    SPMD
    + """
import gc
x = torch.arange(128.0).view(16, 8).to("xla")
partitioning.annotate_(x, ROWS)
local = partitioning.full_to_shard(x, ROWS)
y, z = x @ x.t(), local * 2
later = y + 1, z + 1  # what is recorded stays so while y and z are computed
core.sync_some([core.fast.handle(y), core.fast.handle(z)])
want = torch.arange(128.0).view(16, 8)
assert torch.equal(y.cpu(), want @ want.t()) and partitioning.sharding_of(y) == ROWS
assert torch.equal(later[0].cpu(), want @ want.t() + 1)
assert all(torch.equal(s.data, part * 2 + 1) for s, part in zip(partitioning.shards(later[1]), want.chunk(8)))
torch_go_xla._XLAC._set_buffer_donation(x, True)
total = (x * 2).sum()
torch_go_xla.sync()
assert total.item() == 2 * want.sum()
raises(torch_go_xla.DonatedBufferError, "f32[16,8]", x.cpu)
del x, y, z, local, later, total
gc.collect()
torch_go_xla.sync(wait=True)
assert (torch_go_xla.live_bytes(), core.live_buffers(), core.live_storages()) == (0, 0, 0)
counters = core.counters()
print(counters.get("UncachedCompile", 0), counters.get("PersistentCacheHit", 0))
"""
)


def test_programs_are_kept_on_disk_with_their_shardings(ok, tmp_path) -> None:
    cache = {"XLA_PERSISTENT_CACHE_PATH": str(tmp_path)}
    compiled, found = ok(STORED, **EIGHT, **cache).split()
    assert int(compiled) > 0 and int(found) == 0
    assert ok(STORED, **EIGHT, **cache).split() == ["0", compiled]
    other = STORED.replace("xr.use_spmd()", 'xr.use_spmd()\nROWS = "{devices=[8,1]7,6,5,4,3,2,1,0}"').replace(
        "want.chunk(8)", "want.chunk(8)[::-1]"
    )
    assert ok(other, **EIGHT, **cache).split() != ["0", compiled], "another sharding is another program"


def test_sharded_heads_stay_where_they_are(ok) -> None:
    ok(
        SPMD
        + """
import copy
from collections import Counter
import torch.nn.functional as F
from torch_go_xla import debug

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(72)
        self.q, self.k, self.v, self.out = (nn.Linear(72, 72) for _ in range(4))

    def forward(self, x):
        y = self.norm(x)
        q, k, v = (f(y).view(*x.shape[:2], 8, 9).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).reshape(x.shape))

torch.manual_seed(0)
plain = nn.Sequential(Block(), Block())
model = copy.deepcopy(plain).to("xla")
for block in model:
    for layer in (block.q, block.k, block.v):
        partitioning.annotate_(layer.weight, ROWS), partitioning.annotate_(layer.bias, "{devices=[8]<=[8]}")
    partitioning.annotate_(block.out.weight, COLUMNS)
x = torch.randn(4, 10, 72)
y, kept = x.to("xla"), []
with torch.no_grad():
    found = debug.collectives(lambda: kept.append(partitioning.annotate(model(y), "{replicated}")))
assert Counter(c.kind for c in found) == {"all-reduce": 2}, "one a block, and no head moves"
torch.testing.assert_close(kept[0].cpu(), plain(x).detach(), rtol=1e-5, atol=1e-5)
for m, data in ((model, y), (plain, x)):
    m(data).square().mean().backward()
for a, b in zip(model.parameters(), plain.parameters()):
    torch.testing.assert_close(a.grad.cpu(), b.grad, rtol=1e-4, atol=1e-5)
""",
        **EIGHT,
    )
