"""Graphs that run op by op give what compiled ones give; what cannot run so is compiled."""

import json
import re

import pytest
import torch
import torch.nn.functional as F

import torch_go_xla
from torch_go_xla._core import core
from torch_go_xla.debug import compilations, metrics, profiler
from torch_go_xla.tiers import get_tier, set_tier


def count(name):
    return metrics.counter_value(name) or 0


class Counted:
    """How often graphs were run op by op and compiled within a block."""

    NAMES = {"interpreted": "InterpretedGraphs", "failed": "InterpretationsFailed", "compiled": "UncachedCompile"}

    def __enter__(self):
        self.before = {k: count(n) for k, n in self.NAMES.items()}
        return self

    def __exit__(self, *_):
        torch_go_xla.sync(wait=True)
        for k, n in self.NAMES.items():
            setattr(self, k, count(n) - self.before[k])


def floats(*size, seed=0):
    return torch.randn(size, generator=torch.Generator().manual_seed(seed))


def block(x, w):
    y = F.layer_norm(x @ w, (8,)).view(2, 3, 8).transpose(0, 1)
    y = F.gelu(y[1:] * 2.5 + 1).reshape(-1, 8)
    return torch.softmax(y, -1), y.sum(0, keepdim=True) / 3


def written(x, w):
    y = x.clone()
    y[1:3, ::2] = w[:2, :4] * 3
    y.t()[2] += 5
    y.as_strided((3, 2), (2, 5), 1).mul_(-1)
    return y, y.diagonal(), F.pad(y, (1, 2, -1, 0)), F.pad(y, (2, 0), value=1.5)


def promoted(x, w):
    i, h, z = x.mul(10).long(), x.bfloat16(), x[0, 0]
    whole = i * 2.5, i + 3, 7 - i, i - i * 2, i // 3, i == 2, i.bool() & True, i**2, i.clamp(min=2), i.add(i, alpha=4)
    scalar = z * 2.5, z.long() * 1.5, z.bfloat16() / 3, x.add(z, alpha=0.3)
    return *whole, *scalar, h * 0.1 + h, x > 1, 2**x, x**2, x**-0.5, x.clamp(-0.3, 0.4)


def steps(x, w):
    m = x * 0
    for k in range(3):
        m = m.lerp(x, 0.1)
        w = torch.addcdiv(torch.addcmul(w, w, w, value=-0.01 * k), w, w.abs() + 1, value=-0.1)
    return m, w, x.masked_fill(x > 0, 7), torch.where(x > 0, x, 0.5), F.leaky_relu(x, 0.2), x.norm(), x.var(0), x.std()


def indexed(x, w):
    i = torch.tensor([2, 0, 1], device=x.device)
    return (
        w[i],
        x.index_select(1, i),
        x.gather(1, i.expand(6, 3)),
        torch.cat([x, w[:6]]),
        x.topk(2, 1),
        torch.arange(3, 20, 4, device=x.device),
    )


def activations(x, w):
    x = (x * 3).requires_grad_()
    y = [
        F.elu(x), F.elu(x, 0.3), F.celu(x, 2.0), F.selu(x), F.softplus(x), F.softplus(x, 2.0, 3.0), F.hardshrink(x),
        F.softshrink(x, 0.3), F.threshold(x, 0.2, 7), F.hardtanh(x, -0.3, 0.4), F.relu6(x), F.leaky_relu(x, 0.2),
        F.hardswish(x), F.mish(x), F.elu(x.bfloat16()).float(), F.elu(x * 1, 0.5, inplace=True),
    ]  # fmt: skip
    return [*y, *torch.autograd.grad(sum(t.square().sum() for t in y), x)]


def convolved(x, w):
    image, kernel = x[:, :4].reshape(1, 2, 3, 4).repeat(3, 1, 2, 2).requires_grad_(), w.view(2, 2, 4, 4)[:, :, :3, :3]
    mean, var = torch.zeros_like(w[0, :2]), torch.ones_like(w[0, :2])
    y = F.batch_norm(F.conv2d(image, kernel, padding=1), mean, var, training=True)
    y = F.max_pool2d(F.relu(y), 2)
    target = (y.detach()[:, 0] > 0.5).long()
    loss = F.cross_entropy(y, target)
    loss = loss + F.batch_norm(y, mean, var).square().mean()
    loss = loss + F.conv_transpose2d(y, kernel, stride=2, padding=1, output_padding=1, groups=1).cos().mean()
    return loss, mean, var, *torch.autograd.grad(loss, image)


def put(x, w):
    i, j = torch.tensor([2, 0, 2], device=x.device), torch.tensor([1, -1, 1], device=x.device)
    y = x.clone()
    y[i, j] += w[0, :3]
    z = x.index_put((i, j), w[0, :3], accumulate=True)
    a = x.clone().requires_grad_()
    return y, z, *torch.autograd.grad(a[i, j].square().sum(), a), x.roll(3), w.roll((1, -2), (0, 1))


GRAPHS = (block, written, promoted, steps, indexed, activations, convolved, put)


def flat(values):
    return [t.detach() for v in values for t in (v if isinstance(v, tuple) else (v,))]


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda g: g.__name__)
def test_a_graph_gives_the_same_in_both_tiers(graph):
    x, w = floats(6, 8), floats(8, 8, seed=1)
    wanted = flat(graph(x, w))
    with set_tier("eager"), Counted() as ran:
        got = flat(graph(x.to("xla"), w.to("xla")))
    assert (ran.interpreted, ran.failed, ran.compiled) == (1, 0, 0)
    again = flat(graph(x.to("xla"), w.to("xla")))
    torch_go_xla.sync(wait=True)
    for a, b, c in zip(wanted, got, again, strict=True):
        assert a.dtype == b.dtype
        torch.testing.assert_close(b.cpu(), a, equal_nan=True)
        torch.testing.assert_close(c.cpu(), a, equal_nan=True)


def train(device, mode, size=6):
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Embedding(30, 16),
        torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0, batch_first=True),
        torch.nn.Linear(16, 30),
    )
    model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, eps=1e-3)  # the key's bias has no gradient but rounding
    ids = torch.randint(30, (4, size), generator=torch.Generator().manual_seed(1)).to(device)
    losses = []
    with set_tier(mode):
        for _ in range(4):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
            torch_go_xla.sync()
        torch_go_xla.sync(wait=True)
    return [t.cpu() for t in (*losses, *model.parameters())]


def test_training_runs_op_by_op():
    with Counted() as ran:
        got = train("xla", "eager")
    assert ran.interpreted == 4 and ran.failed == ran.compiled == 0
    for a, b in zip(got, train("cpu", "eager"), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["eager", "auto"])
def test_two_runs_have_the_same_bits(mode):
    for a, b in zip(train("xla", mode, 5), train("xla", mode, 5), strict=True):
        assert torch.equal(a, b)


def test_an_op_without_a_kernel_is_compiled():
    def draw():
        torch.manual_seed(3)
        return torch.poisson(torch.full((50,), 4.0, device="xla")).cpu()

    with set_tier("compile"):
        wanted, refused = draw(), count("NotInterpretable:aten::poisson")
    with set_tier("eager"), Counted() as ran:
        assert torch.equal(draw(), wanted)
    assert ran.interpreted == 0 and count("NotInterpretable:aten::poisson") > refused


def test_an_index_out_of_range_gives_what_the_compiled_program_gives():
    def look():
        table = torch.arange(6.0, device="xla").view(3, 2)
        return F.embedding(torch.tensor([1, 9], device="xla"), table).cpu()

    wanted = look()
    with set_tier("eager"), Counted() as ran:
        assert torch.equal(look().nan_to_num(-1), wanted.nan_to_num(-1))
    assert ran.failed == 1


def test_sizes_that_depend_on_values_compile_nothing():
    x = floats(6, 8)
    with set_tier("eager"), Counted() as ran:
        for k in range(3):
            y = (x + 0.1 * k).to("xla")
            assert torch.equal(y[y > 0].cpu(), (x + 0.1 * k)[x + 0.1 * k > 0])
            assert torch.equal(y.gt(0.5).nonzero().cpu(), (x + 0.1 * k).gt(0.5).nonzero())
            filled = torch.nonzero_static(y > 0.5, size=60, fill_value=7)
            assert torch.equal(filled.cpu(), torch.nonzero_static(x + 0.1 * k > 0.5, size=60, fill_value=7))
    assert ran.failed == ran.compiled == 0


def test_targets_out_of_range_write_nowhere():
    """The gradient alone is computed: torch's kernel for it trusts what the forward kernel has looked at."""

    def gradient():
        x = torch.zeros(2, 3, device="xla")
        target = torch.tensor([1, 1 << 40], device="xla")
        return torch.ops.aten.nll_loss_backward(
            torch.tensor(1.0, device="xla"), x, target, None, 1, -100, torch.tensor(2.0, device="xla")
        ).cpu()

    wanted = gradient()
    with set_tier("eager"), Counted() as ran:
        assert torch.equal(gradient(), wanted)
    assert ran.failed == 1


@pytest.mark.parametrize("mode", ["compile", "eager"])
@pytest.mark.parametrize("size", [3, 1 << 13])
def test_bounds_outside_of_an_integer_type_are_its_ends(mode, size):
    """Of the larger size such a graph runs by torch's kernels in every mode."""
    for kind, lo, hi in ((torch.uint8, -5, 300), (torch.int8, -300, 300), (torch.int16, -(2**40), 2**40)):
        x = torch.arange(size).to(kind)
        with set_tier(mode):
            y = x.to("xla")
            for bounds in (
                {"min": lo},
                {"max": hi},
                {"min": lo, "max": hi},
                {"min": 2, "max": hi},
                {"min": lo, "max": 7},
            ):
                assert torch.equal(y.clamp(**bounds).cpu(), x.clamp(**bounds)), (kind, bounds)
            assert torch.equal(y.clamp_min(lo).cpu(), x.clamp_min(lo))
            assert torch.equal(y.clamp_max(hi).cpu(), x.clamp_max(hi))


def test_indices_of_a_pooling_are_those_of_the_plane():
    """Both tiers refuse the same ones: torch's kernel leaves out -1."""
    gradient, x = torch.ones(1, 1, 200, 200, device="xla"), torch.ones(1, 1, 400, 400, device="xla")
    places = torch.full((1, 1, 200, 200), -1, device="xla")
    for mode in ("eager", "compile"):
        with set_tier(mode):
            out = torch.ops.aten.max_pool2d_with_indices_backward(
                gradient, x, [2, 2], [2, 2], [0, 0], [1, 1], False, places
            )
            with pytest.raises(RuntimeError, match="an index is out of range of the input's plane"):
                out.cpu()


def test_a_complex_zero_to_the_power_of_a_number():
    z = torch.tensor([0j, 1 + 2j], dtype=torch.complex64)
    with set_tier("eager"), Counted() as ran:
        x = z.to("xla")
        got = [(x**n).cpu() for n in (2, 0, 3, 0.5)]
    assert ran.failed == ran.compiled == 0
    for n, g in zip((2, 0, 3, 0.5), got, strict=True):
        torch.testing.assert_close(g, z**n, equal_nan=True)


def test_counts_sums_of_rows_and_other_types_of_the_same_bytes():
    ids, x, at = torch.tensor([2, 0, 1, 2, 7]), floats(5, 6), torch.tensor([3, 0, 3, 4, 1])

    def results(ids, x, at):
        return (
            torch.stack([(ids == k).sum() for k in range(4)]) if ids.device.type == "cpu" else ids.histc(4, 0, 3),
            x.index_add(0, at, x.flip(0)),
            x.index_add(-1, at, x[:, :5], alpha=-2.5),
            ids[:, None].expand(5, 3).contiguous().index_add(0, at, ids[:, None].expand(5, 3), alpha=2),
            *(
                x[::2].t().contiguous()[:, :2].contiguous().view(d)
                for d in (torch.int32, torch.uint8, torch.float64, torch.int16)
            ),
            x.view(torch.complex64).view(torch.float32),
            x[0, 0].view(torch.int32),
        )

    with set_tier("eager"), Counted() as ran:
        got = [t.cpu() for t in results(ids.to("xla"), x.to("xla"), at.to("xla"))]
    assert (ran.failed, ran.compiled) == (0, 0)
    for a, b in zip(got, results(ids, x, at), strict=True):
        assert a.dtype == b.dtype
        torch.testing.assert_close(a, b)


def test_a_row_out_of_range_gives_what_the_compiled_program_gives():
    def add():
        return (
            torch.zeros(3, 2, device="xla")
            .index_add(0, torch.tensor([1, -1, 9], device="xla"), torch.ones(3, 2, device="xla"))
            .cpu()
        )

    wanted = add()
    with set_tier("eager"), Counted() as ran:
        assert torch.equal(add(), wanted)
    assert ran.failed == 1


def test_values_count_in_the_limit_of_memory(ok, python):
    """What does not fit op by op is compiled, and says what the compiled program needs."""
    program = "tiers/limited.py"
    limited = {"XLA_TIER": "eager", "PJRT_XLA_CPU_MEMORY_LIMIT_BYTES": str(200 << 20)}
    assert ok(program, 2, **limited).split() == ["1.0", "2"]
    limited["PJRT_XLA_CPU_MEMORY_LIMIT_BYTES"] = str(60 << 20)
    refused = python(program, 2, **limited)
    assert refused.code == 1 and "out of memory" in refused.err


@pytest.mark.parametrize("graph", ["rows", "turned"])
def test_values_on_the_way_count_in_the_limit_of_memory(ok, python, graph):
    """Scaled rows are there beside what they are added to, and so is the copy that a reshape makes."""
    limited = {"XLA_TIER": "eager", "PJRT_XLA_CPU_MEMORY_LIMIT_BYTES": str(60 << 20)}
    assert ok("tiers/limited.py", graph, **limited).split() == ["1.0", "2"]
    limited["PJRT_XLA_CPU_MEMORY_LIMIT_BYTES"] = str(44 << 20)
    refused = python("tiers/limited.py", graph, **limited)
    assert refused.code == 1 and "out of memory" in refused.err


@pytest.mark.parametrize(
    ("graph", "written"),
    [
        (lambda x: torch.rand(1000, device="xla").sin(), 8000),  # with the zeros that it replaces
        (lambda x: x.view(torch.int16).neg(), 4000),
        (lambda x: torch.zeros(1000, device="xla", dtype=torch.double).copy_(x).sin(), 16000),
        (lambda x: x.view(10, 100).t()[3:].sin(), 0),
    ],
    ids=["random", "other bytes", "other type", "views"],
)
def test_what_kernels_write_on_the_way_is_counted(graph, written):
    """An op whose last step is a view has called a kernel before."""
    x = floats(1000).to("xla")
    with set_tier("eager"):
        kept = graph(x)
        torch_go_xla.sync()
    assert core.compilations()[-1]["work"]["bytes"] == written, kept


def test_what_is_compiled_because_of_an_op_ran_on_the_device():
    metrics.clear_counters()
    with set_tier("eager"):
        torch.poisson(torch.ones(3, device="xla")).cpu()
    assert count("NotInterpretable") and metrics.executed_fallback_ops() == []


def test_the_profile_has_the_time_on_the_device(tmp_path):
    x = torch.ones(4, device="xla")
    torch_go_xla.sync(wait=True)
    with set_tier("eager"), profiler.trace(tmp_path / "steps.json"):
        for k in range(2):
            (x * (k + 2)).cpu()
    spans = [e["name"] for e in json.loads((tmp_path / "steps.json").read_text())["traceEvents"] if e["ph"] == "X"]
    assert spans.count("execute") == 2


def test_a_buffer_is_taken_over_unless_somebody_reads_it():
    with set_tier("eager"):
        x = torch.zeros(1 << 20, device="xla")
        torch_go_xla.sync(wait=True)
        live, donated = torch_go_xla.live_bytes(), count("DonatedBuffers")
        for _ in range(3):
            x += 1
            torch_go_xla.sync(wait=True)
        assert count("DonatedBuffers") == donated + 3 and torch_go_xla.live_bytes() <= live + (4 << 20)
        before = x.detach().clone()
        torch_go_xla.sync(wait=True)
        x += 1
        torch_go_xla.sync(wait=True)
        assert before.unique().tolist() == [3.0] and x.unique().tolist() == [4.0]


def test_values_that_change_places():
    """Each result is a view of a buffer that another result is written into."""
    a, b = torch.arange(6.0).view(2, 3), torch.arange(6.0, 12).view(2, 3)
    x, y = a.to("xla"), b.to("xla")
    with set_tier("eager"), Counted() as ran:
        old = x.flip(0)
        x.copy_(y.t().reshape(2, 3))
        y.copy_(old)
    assert ran.failed == 0
    assert torch.equal(x.cpu(), b.t().reshape(2, 3)) and torch.equal(y.cpu(), a.flip(0))


def test_a_graph_is_compiled_when_that_pays():
    def step(x):
        for _ in range(10):
            x = torch.tanh(x) * 1.5
        return x

    with set_tier("auto"):
        x = floats(1 << 19).to("xla")
        torch_go_xla.sync(wait=True)
        launches = []
        for k in range(200):
            with Counted() as ran:
                y = step(x)
            launches.append((ran.interpreted, ran.compiled))
            if k == 0:
                said = re.search(r"op by op: seen 1 time, a compilation is worth it from (\d+)", compilations.explain())
            if ran.compiled:
                break
    first = int(said[1])
    assert launches == [(1, 0)] * (first - 1) + [(0, 1)]
    assert " compiled a program of " in compilations.explain()
    torch.testing.assert_close(y.cpu(), step(x.cpu()))


def test_what_is_told_of_a_new_graph(python):
    told = python("config/graph.py", XLA_TIER="auto", PT_XLA_DEBUG_LEVEL="1").err
    assert re.search(r"runs op by op: seen 1 time, a compilation is worth it from \d+, a program of 4 nodes", told)


def test_a_graph_that_runs_op_by_op_is_lowered_when_its_program_is_needed(ok):
    """The program of few launches is never needed, unless somebody asks from when on it pays."""

    def lowered(mode, times):
        before = metrics.metric_data("LowerTime") or (0,)
        with set_tier(mode):
            for _ in range(times):
                (floats(7, 11).to("xla").tanh().cumsum(0) * 3).cpu()
        return (metrics.metric_data("LowerTime") or (0,))[0] - before[0]

    assert lowered("auto", 3) == lowered("eager", 3) == 0
    assert "a compilation is worth it from" in compilations.explain()
    assert lowered("auto", 1) == 0  # it was by now
    assert core.compilations()[-1]["work"]["statements"] > 0


def test_a_graph_that_a_compilation_slows_down_stays_op_by_op():
    with set_tier("auto"), Counted() as ran:
        x = floats(1 << 16).to("xla")
        for _ in range(4):
            x = x.tan() * 1.5
        torch_go_xla.sync(wait=True)
        assert "runs op by op: seen 1 time, a compilation gains nothing" in compilations.explain()
    assert ran.compiled == 0


def test_two_processes_decide_alike(ok):
    """Which step is compiled depends on the graphs only, so that the bits are equal."""
    first, second = (ok("tiers/training.py", XLA_TIER="auto") for _ in range(2))
    assert first == second
    tiers = first.split()[:-1]
    assert tiers[:4] == ["ops"] * 4 and tiers.count("compile") == 2, "both batch sizes are compiled, later"


def test_a_program_on_disk_runs_at_once(ok, tmp_path):
    kept = {"XLA_PERSISTENT_CACHE_PATH": str(tmp_path / "cache")}
    compiled = ok("tiers/training.py", XLA_TIER="compile", **kept).split()
    again = ok("tiers/training.py", XLA_TIER="auto", **kept).split()
    assert "ops" not in again and "compile" not in again and again[-1] == compiled[-1]


def test_a_graph_that_fails_op_by_op_is_not_tried_again():
    with set_tier("eager"):
        table = torch.arange(6.0, device="xla").view(3, 2)
        at = torch.tensor([1, 9], device="xla")
        torch_go_xla.sync(wait=True)
        for k in range(3):
            with Counted() as ran:
                F.embedding(at, table * 1.25).cpu()
            assert (ran.interpreted, ran.failed, ran.compiled) == (0, 1, int(not k))


def test_the_background_compiles_beside():
    with set_tier("background"):
        x = floats(7, 11).to("xla")
        with Counted() as ran:
            y = x.cosh() * 3
        assert ran.interpreted == 1
        torch.testing.assert_close(y.cpu(), x.cpu().cosh() * 3)
        while not count("UncachedCompile") > ran.before["compiled"]:
            y = x.cosh() * 3
            torch_go_xla.sync(wait=True)
        torch.testing.assert_close(y.cpu(), x.cpu().cosh() * 3)


@pytest.mark.compiled
def test_the_mode():
    assert get_tier() == "compile"
    with set_tier("eager"):
        assert get_tier() == "eager"
        with set_tier("auto"):
            assert get_tier() == "auto"
        assert get_tier() == "eager"
    assert get_tier() == "compile"

    @set_tier("eager")
    def mode():
        return get_tier()

    assert get_tier() == "eager"  # as torch.set_grad_enabled, it counts from the call on
    set_tier("compile")
    assert mode() == "eager" and get_tier() == "compile"
    with pytest.raises(ValueError, match="want compile, eager, auto, background"):
        set_tier("fast")


def test_the_variable(ok, python):
    program = """
import torch, torch_go_xla
from torch_go_xla.tiers import get_tier
print((torch.ones(2, device="xla") + 1).tolist(), get_tier())
"""
    assert ok(program, XLA_TIER="eager") == "[2.0, 2.0] eager\n"
    refused = python(program, XLA_TIER="fast")
    assert refused.code == 1 and "want compile, eager, auto, background" in refused.err
