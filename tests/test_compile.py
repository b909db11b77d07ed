"""`torch_go_xla.compile` and `torch.compile(backend="openxla")`: replays give what recordings give."""

import gc
import itertools
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import torch_go_xla
import torch_go_xla.debug.metrics as met
from torch_go_xla._backend.core import native
from torch_go_xla.experimental.scan_layers import scan_layers


def model(dropout=0.0):
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, 4))


def make_step(m, optimizer):
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(m(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adam on the device": lambda p: torch.optim.Adam(p, lr=0.01, capturable=p[0].device.type == "xla"),
    "adam on the host": lambda p: torch.optim.Adam(p, lr=0.01),
}


def train(device, optimizer, compiled, change=None, steps=7):
    torch.manual_seed(1)
    m = model().to(device)
    opt = OPTIMIZERS[optimizer](list(m.parameters()))
    step = make_step(m, opt)
    if compiled:
        step = torch_go_xla.compile(step)
    torch.manual_seed(2)
    losses = []
    for i in range(steps):
        if change and i == steps - 2:
            change(m, opt)
        x, y = torch.randn(32, 8), torch.randint(0, 4, (32,))
        losses.append(step(x.to(device), y.to(device)).item())
    values = [
        losses,
        *(p.detach().cpu() for p in m.parameters()),
        *(p.grad.cpu() for p in m.parameters() if p.grad is not None),
    ]
    return values, step


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_step_with_its_optimizer(optimizer):
    want, _ = train("cpu", optimizer, False)
    got, step = train("xla", optimizer, True)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-6)
    assert step.replays >= 3


@pytest.mark.parametrize("name", ["Adam", "AdamW", "NAdam", "RAdam", "Adamax", "RMSprop", "Adadelta", "Rprop", "ASGD"])
def test_optimizers_by_default_are_replayed_and_saved_as_before(name):
    def run(device, compiled):
        torch.manual_seed(1)
        m = nn.Linear(8, 8).to(device)
        opt = getattr(torch.optim, name)(m.parameters(), lr=0.01)
        step = make_step(m, opt)
        step = torch_go_xla.compile(step, full_graph=True) if compiled else step
        torch.manual_seed(2)
        for i in range(12):
            if i == 6:  # as if a checkpoint were read
                opt.load_state_dict(opt.state_dict())
            step(torch.randn(4, 8).to(device), torch.randint(0, 8, (4,)).to(device))
        return m.weight.detach().cpu(), opt.state_dict(), step

    want, saved, _ = run("cpu", False)
    got, state, step = run("xla", True)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=2e-5)
    assert step.replays >= 6
    assert state["param_groups"][0]["capturable"] is False
    assert float(state["state"][0]["step"]) == float(saved["state"][0]["step"]) == 12


def test_numbers_that_differ_from_call_to_call_are_not_replayed():
    count = itertools.count(3)
    step = torch_go_xla.compile(lambda x: x * next(count))
    x = torch.ones(2, device="xla")
    assert [step(x)[0].item() for _ in range(5)] == [3, 4, 5, 6, 7]
    assert step.replays == 0 and "differ from call to call" in step.explain()


def test_a_step_that_returns_its_loss_is_replayed():
    torch.manual_seed(0)
    m = nn.Linear(8, 8).to("xla")
    opt = torch.optim.SGD(m.parameters(), lr=0.1)

    @torch_go_xla.compile
    def step(x):
        opt.zero_grad()
        loss = m(x).square().mean()
        loss.backward()
        opt.step()
        return {"loss": loss, "out": (loss * 2).detach()}

    x = torch.randn(4, 8, device="xla")
    losses = [step(x)["loss"] for _ in range(7)]
    assert step.replays >= 4
    assert all(loss.requires_grad and loss.grad_fn is not None for loss in losses)
    assert all(a > b for a, b in itertools.pairwise(loss.item() for loss in losses))
    mean = losses[-1]
    mean /= 2  # in place, as of a tensor that is not a leaf
    with pytest.raises(RuntimeError, match="call backward inside of the step"):
        mean.backward()
    replays = step.replays
    step(x)
    assert step.replays == replays and "call backward inside" in step.explain()


def test_a_forward_pass_whose_result_is_differentiated_is_recorded():
    torch.manual_seed(0)
    m = nn.Linear(8, 8).to("xla")
    forward = torch_go_xla.compile(lambda x: m(x))
    x = torch.randn(4, 8, device="xla")
    for i in range(1, 6):
        forward(x).sum().backward()
        assert m.bias.grad.tolist() == [4.0 * i] * 8
    assert forward.replays == 0


def test_a_block_is_a_step():
    with torch_go_xla.compile():
        y = torch.ones(3, device="xla") * 2
    assert "xla::" not in torch_go_xla._XLAC._get_xla_tensors_text([y]) and y.tolist() == [2.0] * 3
    with pytest.raises(RuntimeError, match="warm up is more than one graph"):
        with torch_go_xla.compile(full_graph=True, name="warm up"):
            (torch.ones(3, device="xla") * 3).sum().item()


def slower(m, opt):
    for group in opt.param_groups:
        group["lr"] = 0.001


def frozen(m, opt):
    m[0].weight.requires_grad_(False)


def swapped(m, opt):
    with torch.no_grad():
        m[0].bias.copy_(torch.ones(16))


def forgetful(m, opt):
    for group in opt.param_groups:
        group["betas"] = (0.5, 0.9)


@pytest.mark.parametrize(
    ("change", "optimizer"),
    [(slower, "sgd"), (frozen, "sgd"), (swapped, "sgd"), (forgetful, "adam on the device")],
)
def test_changes_from_outside_are_seen(change, optimizer):
    want, _ = train("cpu", optimizer, False, change)
    got, step = train("xla", optimizer, True, change)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-6)
    assert step.replays >= 2


@torch.no_grad()
def test_a_buffer_that_another_takes_the_place_of():
    m = nn.BatchNorm1d(4).to("xla").eval()
    f = torch_go_xla.compile(lambda x: m(x))
    x = torch.ones(2, 4, device="xla")
    for _ in range(4):
        assert f(x).cpu().allclose(torch.ones(2, 4), atol=1e-4)
    m.running_mean = torch.ones(4, device="xla")
    assert f(x).cpu().allclose(torch.zeros(2, 4), atol=1e-4)
    assert f.replays == 2


def test_descriptions_tell_apart_what_is_equal_but_not_the_same():
    m = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2))
    opt = torch.optim.Adam(m.parameters())

    def describe(*values):
        return native().fast.describe(list(values), nn.Module, torch.optim.Optimizer)

    values = [
        1, 1.0, True, 0, 0.0, -0.0, False, None, "", "a", "aaaaaaaa", 2**70, 2**70 + 1, -(2**70), float("nan"),
        (), [], (1,), [1], [[1]], (1, 2), [(1,), 2], object(), m[0].weight, m[1].weight,
    ]  # fmt: skip
    assert len({describe(v) for v in values}) == len(values)
    assert describe(*values) == describe(*values)
    seen = [describe(m)]
    for change in (
        lambda: m[1].train(not m[1].training),
        lambda: m[1].weight.requires_grad_(False),
        lambda: setattr(m[1].bias, "grad", torch.ones(2)),
        lambda: setattr(m[0], "running_var", torch.ones(2)),
        lambda: setattr(m[1], "bias", None),
        lambda: m.append(nn.ReLU()),
        lambda: opt,
    ):
        change()
        seen.append(describe(m))
    assert len(set(seen)) == len(seen) - 1  # the last changes nothing
    opt.param_groups[0]["betas"] = (0.5, 0.999)
    assert describe(opt) != describe(torch.optim.Adam(m.parameters()))
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(RecursionError):
        describe(endless)


def test_arguments():
    scale = 2.0

    @torch_go_xla.compile
    def f(x, y, factor, *, flag=True):
        return {"sum": (x + y) * factor * scale, "flag": flag, "x": x[1:]}

    a, b = torch.arange(6.0).view(2, 3), torch.ones(2, 3)
    for factor in (3, 3, 3, 4.5, 4.5, 4.5):
        for _ in range(3):
            x, y = a.to("xla"), b.to("xla")
            out = f(x, y, factor, flag=False)
            torch.testing.assert_close(out["sum"].cpu(), (a + b) * factor * 2)
            assert out["flag"] is False
            assert out["x"].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
            assert out["x"].tolist() == [[3, 4, 5]]
    assert f.replays > 8
    x = a.to("xla")
    for _ in range(4):  # the same tensor twice is another layout, and so is a view
        torch.testing.assert_close(f(x, x, 3, flag=False)["sum"].cpu(), a * 12)
        torch.testing.assert_close(f(x.view(3, 2).t(), x, 3, flag=False)["sum"].cpu(), (a.view(3, 2).t() + a) * 6)
    scale = 5.0
    torch.testing.assert_close(f(x, x, 3, flag=False)["sum"].cpu(), a * 30)


def test_writes_and_aliases():
    @torch_go_xla.compile
    def f(x):
        x[0] += 1
        y = x * 2
        x.mul_(y)
        return y, y[1], y.t()

    want = torch.ones(2, 2)
    x = want.to("xla")
    alias = x.detach().view(4)
    for _ in range(6):
        want[0] += 1
        y = want * 2
        want.mul_(y)
        got = f(x)
        assert got[0].untyped_storage().data_ptr() == got[2].untyped_storage().data_ptr()
        for g, w in zip((*got, x, alias), (y, y[1], y.t(), want, want.view(4)), strict=True):
            torch.testing.assert_close(g.cpu(), w)
        want.div_(want.max())
        x.div_(x.max())
    assert f.replays >= 3


def test_views_of_another_type_are_results():
    @torch_go_xla.compile
    def f(x):
        y = x + 1
        return y, y.view(torch.int32), x.view(torch.int16)[1:]

    x = torch.arange(4.0)
    want = x + 1, (x + 1).view(torch.int32), x.view(torch.int16)[1:]
    for _ in range(4):
        got = f(x.to("xla"))
        assert all(torch.equal(g.cpu(), w) for g, w in zip(got, want, strict=True))
    assert f.replays == 2


def test_values_that_are_equal_and_differ():
    @torch_go_xla.compile
    def f(x, value):
        return x + (1 if isinstance(value, bool) else 2 if isinstance(value, int) else 3)

    x = torch.zeros(1, device="xla")
    for _ in range(4):
        assert [f(x, value).item() for value in (True, 1, 1.0)] == [1, 2, 3]
    assert f.replays == 6
    for _ in range(4):
        assert f(x, float("nan")).item() == 3
    assert f.replays == 8


def test_zeros_of_either_sign_and_numbers_from_outside():
    number: float = 0.0

    def of_argument(x, value):
        return 1 / (x * value)

    def of_closure(x):
        return x * number

    x, integer = torch.ones(1, device="xla"), torch.ones(1, dtype=torch.int32, device="xla")
    signs, types = torch_go_xla.compile(of_argument), torch_go_xla.compile(of_closure)
    for _ in range(3):
        assert [signs(x, value).item() for value in (0.0, -0.0)] == [float("inf"), -float("inf")]
        got = []
        for number in (2, 2.0, True):  # noqa: B007 (the closure reads it)
            got.append(types(integer).dtype)
        assert got == [torch.int32, torch.float32, torch.int32]
    assert signs.replays == 2 and types.replays == 3


def test_threads_that_pass_arguments_in_other_ways():
    f = torch_go_xla.compile(lambda x, by=None: x + 1 if by is None else x * by)
    x = torch.ones(2, device="xla")
    torch_go_xla.sync()

    def work(value, *args, **kwargs):
        return all(f(*args, **kwargs).tolist() == value for _ in range(30))

    with ThreadPoolExecutor(4) as pool:
        done = [pool.submit(work, [2, 2], x), pool.submit(work, [3, 3], x, by=3.0)] * 2
        assert all(d.result() for d in done)


def test_what_has_a_lazy_bit_is_recorded():
    @torch_go_xla.compile
    def f(x):
        return x.imag + x.real

    x = torch.tensor([1 + 2j, 3 - 4j])
    for _ in range(3):
        assert f(x.to("xla").conj()).tolist() == [-1, 7]
    assert f.replays == 0 and "not a plain xla tensor" in f.explain()


def test_what_is_recorded_besides_runs_too():
    @torch_go_xla.compile
    def f(x):
        return x + 1

    x = torch.zeros(2, device="xla")
    for _ in range(4):
        x = f(x)
    y = torch.ones(2, device="xla") * 3
    before = met.counter_value("SyncTensorsGraph")
    f(x)
    assert f.replays == 3
    assert met.counter_value("SyncTensorsGraph") == before + 2  # the replay, and what was recorded
    assert y.tolist() == [3, 3]


def test_random_numbers_go_on():
    x = torch.ones(1000, device="xla")

    def f(x):
        return F.dropout(x, 0.5), torch.rand_like(x)

    streams = []
    for function in (f, torch_go_xla.compile(f)):
        torch_go_xla.manual_seed(7)
        streams.append([t.cpu() for _ in range(6) for t in function(x)])
    for eager, compiled in zip(*streams, strict=True):
        assert torch.equal(eager, compiled)
    assert not torch.equal(streams[1][-1], streams[1][-3])


def test_a_loop_of_layers_in_a_step():
    """The loop's traced function outlives the step with its loss, and belongs to no program."""

    def train(device):
        torch.manual_seed(0)
        layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3)).to(device)
        optimizer = torch.optim.Adam(layers.parameters(), lr=0.1)

        def step(x):
            optimizer.zero_grad()
            y = scan_layers(layers, x) if device == "xla" else nn.Sequential(*layers)(x)
            loss = y.tanh().square().mean()
            loss.backward()
            optimizer.step()
            return loss

        compiled = torch_go_xla.compile(step, full_graph=True) if device == "xla" else step
        losses = [compiled(torch.full((2, 4), float(i), device=device)) for i in range(6)]
        assert device == "cpu" or compiled.replays >= 3, compiled.explain()
        return [loss.detach().cpu() for loss in losses]

    torch.testing.assert_close(train("xla"), train("cpu"), rtol=1e-4, atol=1e-5)


def test_ddp_is_one_graph_but_for_its_second_step():
    program = Path(__file__).parent / "programs/compile/ddp.py"
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_limits():
    @torch_go_xla.compile(full_graph=True)
    def reads(x):
        return x * x.sum().item()

    with pytest.raises(RuntimeError, match="more than one graph"):
        reads(torch.ones(3, device="xla"))

    @torch_go_xla.compile(max_different_graphs=2)
    def f(x):
        return x + 1

    for n in (2, 3, 2, 3):
        f(torch.ones(n, device="xla"))
    with pytest.raises(RuntimeError, match="3 different graphs, 2 are allowed"):
        f(torch.ones(4, device="xla"))


def test_errors_leave_it_usable():
    @torch_go_xla.compile
    def f(x, y):
        return x @ y

    x = torch.ones(2, 3, device="xla")
    for _ in range(3):
        f(x, x.t())
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        f(x, x)
    assert f(x, x.t()).tolist() == [[3, 3], [3, 3]]


def test_nothing_stays_alive():
    @torch_go_xla.compile
    def f(x):
        return x * 3

    x = torch.ones(1024, device="xla")
    for _ in range(3):
        y = f(x)
    torch_go_xla.sync(wait=True)
    gc.collect()
    before = torch_go_xla.live_bytes()
    for _ in range(20):
        y = f(y)
    torch_go_xla.sync(wait=True)
    assert f.replays > 15
    assert torch_go_xla.live_bytes() == before
    del f, x, y
    gc.collect()
    torch_go_xla.sync(wait=True)
    assert torch_go_xla.live_bytes() <= before - 2 * 4096


# ---- torch.compile ----


def test_views_of_what_torch_thinks_dense():
    """Torch's result of an op on a transpose is a transpose in memory, ours is dense."""
    x = torch.arange(6.0).view(2, 3)
    f = torch.compile(lambda x: (x.t() + 1).t().view(6) * 2, backend="openxla")
    torch.testing.assert_close(f(x.to("xla")).cpu(), (x.view(6) + 1) * 2)


def test_dynamo_inference():
    m = model().eval()
    there = torch.compile(model().eval().to("xla"), backend="openxla")
    there.load_state_dict({f"_orig_mod.{k}": v for k, v in m.state_dict().items()})
    for n in (4, 4, 4, 6):
        x = torch.randn(n, 8)
        with torch.no_grad():
            torch.testing.assert_close(there(x.to("xla")).cpu(), m(x))


def test_dynamo_training():
    results = []
    for device in ("cpu", "xla"):
        torch.manual_seed(3)
        m = model().to(device)
        f = torch.compile(m, backend="openxla") if device == "xla" else m
        opt = torch.optim.SGD(m.parameters(), lr=0.1)
        for _ in range(5):
            x = torch.randn(16, 8)
            loss = f(x.to(device)).square().mean()
            loss.backward()
            opt.step()
            opt.zero_grad()
        results.append([loss.item(), *(p.detach().cpu() for p in m.parameters())])
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-6)


def test_dynamo_mutation_and_aliasing():
    def f(x, buffer):
        buffer.add_(x)
        return x.view(-1), buffer * 2

    g = torch.compile(f, backend="openxla")
    x, buffer = torch.ones(2, 3), torch.zeros(2, 3)
    there = [t.to("xla") for t in (x, buffer)]
    for _ in range(4):
        want, got = f(x, buffer), g(*there)
        assert got[0].untyped_storage().data_ptr() == there[0].untyped_storage().data_ptr()
        for w, a in zip((*want, buffer), (*got, there[1]), strict=True):
            torch.testing.assert_close(a.cpu(), w)
