"""torch's control flow runs on the device: no predicate is read, and loops are loops of the program."""

from __future__ import annotations

import pytest
import torch
from functorch.experimental.control_flow import map as map_rows
from torch._higher_order_ops import while_loop
from torch._higher_order_ops.scan import scan
from torch.utils import _pytree as pytree

import torch_go_xla
import torch_go_xla.debug.metrics as met
from torch_go_xla.debug import compilations

pytestmark = pytest.mark.longer


def branches(x, y):
    return torch.cond(x.sum() > 0, lambda x, y: (x.sin() @ y, x + 1.5), lambda x, y: (x @ y.cos(), x - 2.0), (x, y))


def nested(x, y):
    def inner(x, y):
        return torch.cond(y.sum() > 0, lambda x, y: (x * y,), lambda x, y: (x - y,), (x, y))

    return torch.cond(x.sum() > 0, inner, lambda x, y: (x + y,), (x, y))


def countdown(n, x):
    return while_loop(lambda n, x: n > 0, lambda n, x: (n - 1, x * 1.5 + n), (n, x))


def totals(x):
    return scan(lambda c, x: (c * 0.5 + x, (c * x, c.sum())), x[0] * 0, x, dim=0)


def backwards(x):
    return scan(lambda c, x: (c + x, c * x), x[0] * 0, x, dim=0, reverse=True)


def rows(xs, y):
    return map_rows(lambda x, y: (x.sin() + y, x.sum()), xs, y)


torch.manual_seed(0)
SQUARE, OTHER = torch.rand(3, 3), torch.randn(3, 3)
PROGRAMS = {
    "cond then": (branches, (SQUARE, OTHER)),
    "cond else": (branches, (-SQUARE, OTHER)),
    "cond in cond": (nested, (SQUARE, -OTHER)),
    "while_loop": (countdown, (torch.tensor(4), OTHER)),
    "while_loop of no turn": (countdown, (torch.tensor(0), OTHER)),
    "scan": (totals, (torch.randn(5, 3),)),
    "scan reversed": (backwards, (torch.randn(5, 3),)),
    "map": (rows, (torch.randn(4, 3), OTHER[0])),
}


@pytest.fixture(autouse=True)
def fresh():
    """Start without what other tests have compiled or left recorded."""
    torch._dynamo.reset()
    torch_go_xla.sync(wait=True)


@pytest.fixture(params=["eager", "compiled"])
def prepare(request):
    """Return the function as it is, or compiled."""
    return (
        (lambda f: torch.compile(f, backend="openxla", fullgraph=True)) if request.param == "compiled" else lambda f: f
    )


def here(tree):
    return pytree.tree_map_only(torch.Tensor, lambda t: t.cpu(), tree)


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_runs_on_the_device(prepare, name):
    function, args = PROGRAMS[name]
    want = function(*args)
    f = prepare(function)
    there = [a.to("xla") for a in args]
    first = f(*there)
    torch_go_xla.sync(wait=True)
    torch.testing.assert_close(here(first), want)
    met.clear_all()
    for _ in range(3):
        got = f(*there)
        assert met.metric_data("TransferFromDeviceTime") is None
        torch_go_xla.sync(wait=True)
    assert (met.counter_value("UncachedCompile") or 0) == 0 and met.executed_fallback_ops() == []
    torch.testing.assert_close(here(got), want)


@pytest.mark.longer
@pytest.mark.parametrize("name", ["cond then", "cond else", "scan"])
def test_it_is_differentiated(prepare, name):
    function, args = PROGRAMS[name]
    gradients = []
    for device, f in (("cpu", function), ("xla", prepare(function))):
        leaves = [a.detach().clone().to(device).requires_grad_() for a in args]
        total = sum(t.square().sum() for t in pytree.tree_leaves(f(*leaves)))
        gradients.append([g.cpu() for g in torch.autograd.grad(total, leaves)])
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-5)


def test_both_ways_are_one_program():
    """Whichever branch runs, and however often the body does, the program is the same."""
    x, y = SQUARE.to("xla"), OTHER.to("xla")
    n = torch.tensor(3).to("xla")
    first = branches(x, y), countdown(n, y)
    torch_go_xla.sync(wait=True)
    met.clear_all()
    x, n = (-SQUARE).to("xla"), torch.tensor(7).to("xla")
    results = branches(x, y), countdown(n, y)
    torch_go_xla.sync(wait=True)
    assert not met.counter_value("UncachedCompile"), compilations.explain()
    torch.testing.assert_close(here(first), (branches(SQUARE, OTHER), countdown(torch.tensor(3), OTHER)))
    want = branches(-SQUARE, OTHER), countdown(torch.tensor(7), OTHER)
    torch.testing.assert_close(here(results), want)


def test_what_is_no_function_is_left_to_torch():
    """Random numbers need the generator, so that the predicate is read."""
    x = torch.ones(1000, device="xla")
    torch_go_xla.manual_seed(1)
    y = torch.cond(x.sum() > 0, lambda x: torch.rand_like(x), lambda x: x * 2, (x,))
    assert 0.4 < y.mean().item() < 0.6


def test_a_value_of_an_argument_is_an_error_of_its_own():
    """A function that reads a value while it is traced does not harm what else is recorded."""
    from torch_go_xla._backend.composed import control_flow

    x = torch.ones(3, device="xla")
    other = x * 2
    with pytest.raises(RuntimeError, match="it has no value"):
        control_flow.trace(lambda x: (x + 1).sum().item(), [x])
    assert other.tolist() == [2, 2, 2] and (x + 1).tolist() == [2, 2, 2]
