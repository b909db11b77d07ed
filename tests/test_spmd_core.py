"""SPMD: sharded values, programs partitioned over 8 devices of one process, against the same on one CPU."""

from __future__ import annotations

START = """
import torch, torch_go_xla
from torch import nn
import torch_go_xla.runtime as xr
from torch_go_xla._backend import spmd
from torch_go_xla._core import core

ROWS, COLUMNS, GRID = "{devices=[8,1]<=[8]}", "{devices=[1,8]<=[8]}", "{devices=[2,4]<=[8]}"
HALVES = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"

def raises(kind, words, f, *args):
    try:
        f(*args)
    except kind as e:
        assert words in str(e), e
    else:
        raise AssertionError("no error")
"""
SPMD = START + "xr.use_spmd()\n"
EIGHT = {"CPU_NUM_DEVICES": "8"}


def test_one_device_of_all(ok) -> None:
    ok(
        START
        + """
a = torch.arange(6.0).to("xla")
b = a + 1
assert not xr.is_spmd() and spmd.num_devices() == 8 and torch_go_xla.device_count() == 8
raises(RuntimeError, "use_spmd", spmd.annotate, a, "{replicated}")
raises(RuntimeError, "use_spmd", spmd.annotate_, a, "{replicated}")
xr.use_spmd()
xr.use_spmd()
assert xr.is_spmd() and spmd.num_devices() == 8 == xr.global_runtime_device_count()
assert torch_go_xla.device_count() == 1
assert a.tolist() == [0, 1, 2, 3, 4, 5] and b.tolist() == [1, 2, 3, 4, 5, 6] and (a + b).sum().item() == 36
assert spmd.sharding_of(a) == "" and len(spmd.shards(a)) == 8
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
spmd.annotate_(x, "{devices=[1,1]0}")
y = spmd.annotate(x @ x.t(), "{replicated}")
assert y.tolist() == [[5, 14], [14, 50]] and len(spmd.shards(y)) == 1
raises(ValueError, "more devices than there are: 1", spmd.annotate, x, "{devices=[2,1]<=[2]}")
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
        spmd.annotate_(x, sharding)
        held = spmd.shards(x)
        assert torch.equal(x.cpu(), value), (sizes, sharding, dtype)
        for s in held:
            assert torch.equal(s.data, value[s.index]), (sizes, sharding, s)
        owners = [s for s in held if s.replica_id == 0]
        assert sum(s.data.numel() for s in owners) == value.numel()
        if sharding in (GRID, ROWS, COLUMNS) and sizes in ((8, 4), (4, 16), (4, 8)):
            assert torch_go_xla.live_bytes() - before == value.nbytes - 8 * value.nbytes, "the copies are gone"
        told = spmd.sharding_of(x)
        x.copy_(value)  # an upload keeps what the storage was told
        assert torch.equal(x.cpu(), value) and spmd.sharding_of(x) == told != ""
        spmd.set_shards_(x, [s.data for s in held])
        assert torch.equal(x.cpu(), value)
x = torch.zeros(4, 2).to("xla")
spmd.annotate_(x, "{devices=[4,1,2]<=[8] last_tile_dim_replicate}")
spmd.set_shards_(x, [torch.full((1, 2), float(i // 2)) for i in range(8)])
assert x.tolist() == [[0, 0], [1, 1], [2, 2], [3, 3]]
raises(ValueError, "7 shards for 8", spmd.set_shards_, x, [torch.zeros(1, 2)] * 7)
raises(ValueError, "holds a shard of sizes [1, 2]", spmd.set_shards_, x, [torch.zeros(2, 2)] * 8)
""",
        **EIGHT,
    )


def test_bad_shardings(ok) -> None:
    ok(
        SPMD
        + """
x = torch.zeros(5, 3).to("xla")
for mark in (spmd.annotate, spmd.annotate_):
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
spmd.annotate_(x, "{devices=[4,2]<=[8]}")
def step(f):
    f(want), f(x)
    assert torch.equal(x.cpu(), want), (f, x, want)
    assert spmd.sharding_of(x) == "{devices=[4,2]<=[8]}"
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
spmd.annotate_(x[1:3], "{devices=[2,1,4]<=[8] last_tile_dim_replicate}")  # of a part: its present value only
assert torch.equal(x.cpu(), want) and spmd.sharding_of(x[1:3]) == ""
pending = x * 2
spmd.annotate_(pending, ROWS)
assert spmd.sharding_of(pending) == ROWS and torch.equal(pending.cpu(), want * 2) and spmd.sharding_of(pending) == ROWS
blank = torch.empty(8, 2, device="xla")
spmd.annotate_(blank, ROWS)
blank.fill_(3)
assert blank.tolist() == [[3, 3]] * 8 and spmd.sharding_of(blank) == ROWS
spmd.clear_(blank)
assert spmd.sharding_of(blank) == "" and blank.tolist() == [[3, 3]] * 8 and spmd.shards(blank)[0].data.shape == (8, 2)
w = torch.ones(4, 8, device="xla", requires_grad=True)
(spmd.annotate(w * 2, GRID) * 3).sum().backward()
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
        spmd.annotate_(model[0].weight, ROWS)
        spmd.annotate_(model[0].bias, "{devices=[8]<=[8]}")
        spmd.annotate_(model[2].weight, COLUMNS)
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
            torch_go_xla.sync()
            counts.append((core.counters()["UncachedCompile"], core.counters().get("InputOutputAliasCount", 0)))
    return torch.stack([l.detach().cpu() for l in losses]), model, optimizer, counts

want, plain, _, _ = train("cpu")
got, model, optimizer, counts = train("xla")
assert torch.allclose(got, want, rtol=1e-5)
for a, b in zip(model.parameters(), plain.parameters()):
    assert torch.allclose(a.detach().cpu(), b.detach(), rtol=1e-5, atol=1e-6)
assert [spmd.sharding_of(p) for p in model.parameters()] == [ROWS, "{devices=[8]<=[8]}", COLUMNS, ""]
state = optimizer.state[model[0].weight]["exp_avg"]
assert spmd.sharding_of(state) == ROWS, "the compiler shards the optimizer's state as the weights"
compiles, donated = zip(*counts)
assert len(set(compiles[1:])) == 1, "from the second step on it is one program"
assert {b - a for a, b in zip(donated[1:], donated[2:])} == {12}, "4 parameters and their moments are updated in place"
""",
        **EIGHT,
    )
