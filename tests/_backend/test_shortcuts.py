"""Shortcuts past torch's dispatcher: taken where nothing but the kernel would act, and nowhere else."""

import threading

import numpy
import pytest
import torch
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from torch_go_xla._backend.core import native


def taken(call):
    """Return what a call returns, and whether it went past the dispatcher."""
    fast = native().fast
    before = fast.shortcuts_taken()
    result = call()
    return result, fast.shortcuts_taken() > before


@pytest.fixture
def x():
    return torch.tensor([[1.0, -2.0], [3.0, 4.0]]).to("xla")


@pytest.fixture
def y():
    return torch.tensor([[2.0, 0.5], [-1.0, 4.0]]).to("xla")


# ---- taken, with torch's results ----

CALLS = {
    "x + 1": lambda x, y: x + 1,
    "1 + x": lambda x, y: 1 + x,
    "x + y": lambda x, y: x + y,
    "x - 0.5": lambda x, y: x - 0.5,
    "x * True": lambda x, y: x * True,
    "x / y": lambda x, y: x / y,
    "x @ y": lambda x, y: x @ y,
    "-x": lambda x, y: -x,
    "x < y": lambda x, y: x < y,
    "x == 3": lambda x, y: x == 3,
    "x.mm": lambda x, y: x.mm(y),
    "torch.add": lambda x, y: torch.add(x, y),
    "torch.maximum": lambda x, y: torch.maximum(x, y),
    "torch.relu": lambda x, y: torch.relu(x),
    "x.abs": lambda x, y: x.abs(),
    "x.add_": lambda x, y: x.clone().add_(y),
    "x.relu_": lambda x, y: x.clone().relu_(),
    "x.zero_": lambda x, y: x.clone().zero_(),
    "int x + 1.5": lambda x, y: x.int() + 1.5,
    "a row": lambda x, y: x[1] * y[:, 0],
}


@pytest.mark.parametrize("name", CALLS)
def test_taken_with_the_result_of_torch(x, y, name):
    result, short = taken(lambda: CALLS[name](x, y))
    want = CALLS[name](x.cpu(), y.cpu())
    assert short and result.dtype == want.dtype and torch.equal(result.cpu(), want)


def test_an_in_place_operator_keeps_the_tensor_and_its_aliases(x):
    same, row = x, x[1]
    _, short = taken(lambda: x.__iadd__(1))
    x *= 2
    row -= 1
    assert short and same is x
    assert x.tolist() == [[4, -2], [7, 9]] and row.tolist() == [7, 9]


def test_parameters_without_gradients_are_plain(x):
    p = torch.nn.Parameter(x)
    with torch.no_grad():
        q, short = taken(lambda: p + 1)
    assert short and type(q) is torch.Tensor and not q.requires_grad
    assert (p + 1).requires_grad


def test_each_thread_has_modes_of_its_own(x):
    found = []
    with torch.inference_mode():
        t = threading.Thread(target=lambda: found.append(taken(lambda: x + 1)[1]))
        t.start()
        t.join()
    assert found == [True]


# ---- not taken: somebody else has a part in the op ----


def test_a_dispatch_mode_sees_the_op(x):
    seen = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    with Mode():
        result, short = taken(lambda: x + 1)
    assert not short and seen == ["aten.add.Tensor"] and result.tolist() == [[2, -1], [4, 5]]


def test_a_function_mode_sees_the_call(x):
    seen = []

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    with Mode():
        torch.maximum(x, x)
        x.add(1)
    assert seen == [torch.maximum, torch.Tensor.add]


def test_subclasses_see_the_call(x):
    class Logged(torch.Tensor):
        seen = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.seen.append(func)
            return super().__torch_function__(func, types, args, kwargs)

    logged = x.as_subclass(Logged)
    assert type(logged + 1) is Logged and type(torch.maximum(x, logged)) is Logged
    assert torch.maximum in Logged.seen and len(Logged.seen) == 2


def test_gradients_are_recorded(x, y):
    x.requires_grad_()
    (z, short) = taken(lambda: x * y)
    assert not short
    (z + 1).relu().sum().backward()
    host = x.detach().cpu().requires_grad_()
    ((host * y.cpu()) + 1).relu().sum().backward()
    assert torch.equal(x.grad.cpu(), host.grad)


def test_a_view_of_a_tensor_with_a_gradient_is_not_plain(x, y):
    base = x.requires_grad_() * 1
    row = base[0]
    _, short = taken(lambda: row.mul_(y[0]))
    base.sum().backward()
    assert not short and x.grad.tolist() == [[2, 0.5], [1, 1]]


def test_a_write_counts_in_the_version(x, y):
    x.requires_grad_()
    z = (x * y).sum()
    version = y._version
    _, short = taken(lambda: y.add_(1))
    assert short and y._version == version + 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_forward_gradients_are_recorded(x):
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x))
        tangent = forward_ad.unpack_dual(dual * 3).tangent
        assert tangent.tolist() == [[3, 3], [3, 3]]
    assert taken(lambda: x * 3)[1]


@pytest.mark.parametrize(
    "transform, want",
    [
        (lambda f: torch.func.vmap(f), [[2, -4], [6, 8]]),
        (lambda f: torch.func.grad(lambda v: f(v).sum()), [[2, 2], [2, 2]]),
        (lambda f: lambda v: torch.func.jvp(f, (v,), (v,))[1], [[2, -4], [6, 8]]),
        (lambda f: torch.func.functionalize(f), [[2, -4], [6, 8]]),
    ],
    ids=["vmap", "grad", "jvp", "functionalize"],
)
def test_transforms_see_the_op(x, transform, want):
    assert transform(lambda v: v * 2)(x).tolist() == want


def test_marks_of_lazy_negation_and_conjugation_count(x):
    negated, short = taken(lambda: torch._neg_view(x) + 1)
    assert not short and negated.tolist() == [[0, 3], [-2, -3]]
    z = torch.tensor([1 + 2j]).to("xla").conj()
    assert (z * 1).tolist() == [1 - 2j]


def test_inference_mode_makes_inference_tensors(x):
    with torch.inference_mode():
        made, short = taken(lambda: x + 1)
    assert not short and made.is_inference()
    with pytest.raises(RuntimeError, match="inference tensor"):
        made.add_(1)


def test_autocast_casts(x, y):
    with torch.autocast("xla", dtype=torch.bfloat16):
        z, short = taken(lambda: x @ y)
    assert not short and z.dtype == torch.bfloat16


def test_the_profiler_sees_the_op(x):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        x + 1
    assert "aten::add" in [event.key for event in profile.key_averages()]


def test_graphs_are_captured(x):
    from torch.fx.experimental.proxy_tensor import make_fx

    graph = make_fx(lambda v: v * 2 + v)(x)
    assert [n.target for n in graph.graph.nodes if n.op == "call_function"] == [
        torch.ops.aten.mul.Tensor, torch.ops.aten.add.Tensor,
    ]  # fmt: skip


# ---- not taken: the call is another one ----


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.add(1, alpha=2),
        lambda x: torch.add(x, other=x),
        lambda x: x + numpy.float32(1),
        lambda x: x * torch.tensor(2.0),
        lambda x: x @ x[0],
        lambda x: torch.maximum(x, x, out=torch.empty_like(x)),
    ],
    ids=["alpha", "by name", "numpy", "cpu scalar", "matrix times vector", "out"],
)
def test_other_calls_go_through_torch(x, call):
    result, short = taken(lambda: call(x))
    assert not short and torch.equal(result.cpu(), call(x.cpu()))


def test_the_cpu_goes_through_torch():
    result, short = taken(lambda: torch.ones(2) + 1)
    assert not short and result.tolist() == [2, 2]


# ---- values to and from the device ----


@pytest.mark.parametrize("device", ["xla", "xla:0", torch.device("xla"), torch.device("xla", 0)])
@pytest.mark.parametrize(
    "value", [1.5, [[1, 2], [3, 4]], [True, False], [1 + 2j], torch.ones(2, 1, dtype=torch.bfloat16)]
)
def test_small_tensors_are_copied_to_the_device(device, value):
    host = torch.as_tensor(value)
    there, short = taken(lambda: host.to(device))
    want = host.clone()
    host.zero_()
    assert short and there.device == torch.device("xla:0") and there.dtype == want.dtype
    assert torch.equal(there.cpu(), want)


@pytest.mark.parametrize(
    "host",
    [
        torch.arange(6.0).reshape(2, 3).t(),
        torch.zeros(2000),
        torch.zeros(0, 3),
        torch._neg_view(torch.ones(2)),
        torch.ones(2, requires_grad=True),
    ],
    ids=["strided", "large", "empty", "negated", "with a gradient"],
)
def test_other_tensors_are_copied_by_torch(host):
    there, short = taken(lambda: host.to("xla"))
    assert not short and torch.equal(there.cpu(), host) and there.requires_grad == host.requires_grad


def test_other_destinations_are_torchs(x):
    host = torch.ones(2)
    assert host.to("cpu") is host and x.to("xla") is x and host.to(torch.float64).dtype == torch.float64
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        host.to("xla:7")


def test_an_element_is_read(x):
    row = (x + 1)[1]
    value, short = taken(lambda: row[0].item())
    assert short and value == 4
    with pytest.raises(RuntimeError, match="2 elements cannot be converted to Scalar"):
        row.item()
    assert torch._neg_view(x)[0, 0].item() == -1


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64, torch.uint16]
)
@pytest.mark.parametrize("shape", [(), (3,), (2, 1, 3)])
def test_small_results_are_copied_to_the_host(dtype, shape):
    want = torch.full(shape, 3).to(dtype)
    there = want.to("xla").clone()
    here, short = taken(there.cpu)
    assert short and here.device.type == "cpu" and here.dtype == dtype and torch.equal(here, want)
    assert here.stride() == want.stride() and not here.requires_grad
    here.resize_(5).zero_()
    assert torch.equal(there.cpu(), want)


@pytest.mark.parametrize(
    "tensor",
    [
        lambda x: x.t(),
        lambda x: x[1],
        lambda x: x.conj() if x.is_complex() else torch._neg_view(x),
        lambda x: torch.zeros(40000, device="xla"),
        lambda x: torch.zeros(0, 3, device="xla"),
        lambda x: x.requires_grad_() * 2,
        lambda x: torch.nn.Parameter(x),
    ],
    ids=["transposed", "part", "negated", "large", "empty", "with a gradient", "parameter"],
)
def test_other_results_are_copied_by_torch(x, tensor):
    there = tensor(x)
    here, short = taken(there.cpu)
    assert (
        not short and torch.equal(here.detach().to("xla"), there.detach()) and here.requires_grad == there.requires_grad
    )


def test_what_failed_is_raised_where_it_is_read(x):
    from torch_go_xla import _XLAC

    there = x + 1
    _XLAC._set_buffer_donation(x, True)
    (x + 2).cpu()
    with pytest.raises(RuntimeError, match="donated"):
        taken(x.cpu)
    assert there.cpu()[0, 0] == 2


# ---- wrong calls ----


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x + torch.ones(3, device=x.device),
        lambda x: x @ torch.ones(3, 2, device=x.device),
        lambda x: x.int().add_(0.5),
        lambda x: x[0].expand(2, 2).add_(1),
        lambda x: x.int() + (1 << 70),
        lambda x: x + "a",
        lambda x: torch.relu(),
    ],
)
def test_errors_are_torchs(x, call):
    with pytest.raises(Exception) as want:  # noqa: PT011
        call(x.cpu())
    with pytest.raises(type(want.value)) as got:
        call(x)
    assert str(got.value) == str(want.value)


def test_a_torch_that_keeps_its_state_elsewhere_has_no_shortcuts(ok):

    assert ok("shortcuts/a_torch_that_keeps_its_state_elsewhere_has_no_shortcuts.py").split() == [
        "[2.0,",
        "2.0]",
        "0",
    ]
