"""Loops over rows, `torch_go_xla.experimental.scan` and what is made of it, beside the same loops in Python."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import torch_go_xla
import torch_go_xla.debug.metrics as met
from torch_go_xla._backend.errors import NotLoweredError
from torch_go_xla.experimental.fori_loop import fori_loop, while_loop
from torch_go_xla.experimental.gradient_accumulation import gradient_accumulation
from torch_go_xla.experimental.pytreeify import pytreeify
from torch_go_xla.experimental.scan import scan
from torch_go_xla.experimental.scan_layers import scan_layers


def by_rows(fn, init, xs):
    carry, ys = init.clone(), []
    for i in range(len(xs["w"])):
        carry, y = fn(carry, {name: x[i] for name, x in xs.items()})
        ys.append(y)
    return carry, torch.stack(ys)


def compute(device, loop):
    torch.manual_seed(0)
    scale = torch.full((8,), 1.1, device=device, requires_grad=True)
    init = torch.randn(4, 8).to(device).requires_grad_()
    xs = {"w": torch.randn(6, 8, 8).to(device).requires_grad_(), "b": torch.randn(6, 8).to(device).requires_grad_()}

    def fn(carry, x):
        carry *= 0.9  # its own, not the caller's
        h = torch.tanh(carry @ x["w"].t() + x["b"]) * scale
        return h, h.sum(-1)

    carry, ys = loop(fn, init, xs)
    (carry.square().sum() + ys.sin().sum()).backward()
    return [t.detach().cpu() for t in (carry, ys, init, init.grad, xs["w"].grad, xs["b"].grad, scale.grad)]


def test_values_and_gradients():
    torch.testing.assert_close(compute("xla", scan), compute("cpu", by_rows), rtol=1e-4, atol=1e-4)


def test_it_is_one_program_that_is_compiled_once():
    compute("xla", scan)
    met.clear_all()
    compute("xla", scan)
    assert met.counter_value("UncachedCompile") is None and met.counter_value("CachedCompile")


def test_nested_data_and_rows_without_results():
    init = {"sum": torch.zeros(2, device="xla"), "count": torch.tensor(0, device="xla")}
    xs = torch.arange(6.0, device="xla").view(3, 2)
    carry, ys = scan(lambda c, x: ({"sum": c["sum"] + x, "count": c["count"] + 1}, None), init, xs)
    assert carry["sum"].tolist() == [6.0, 9.0] and carry["count"].item() == 3 and ys is None


def test_the_derivative_may_be_taken_twice():
    x = torch.randn(3, 2, device="xla", requires_grad=True)
    carry, _ = scan(lambda c, x: (c * x.sin(), None), torch.ones(2, device="xla"), x)
    loss = carry.sum()
    loss.backward(retain_graph=True)
    first = x.grad.clone()
    loss.backward()
    torch.testing.assert_close(x.grad, 2 * first)


def test_what_is_no_loop_of_the_program_is_unrolled_and_said():
    xs = torch.ones(3, 2, device="xla")
    with pytest.warns(UserWarning, match="called for each row.*draws random numbers"):
        carry, _ = scan(lambda c, x: (c + torch.rand_like(x), None), torch.zeros(2, device="xla"), xs)
    assert carry.shape == (2,)
    total = torch.zeros(2, device="xla")

    def writes(c, x):
        total.add_(x)
        return c + x, None

    with pytest.warns(UserWarning, match="writes to a tensor from outside"):
        scan(writes, torch.zeros(2, device="xla"), xs)
    assert total.tolist() == [3.0, 3.0]


def test_errors():
    x = torch.ones(3, 2, device="xla")
    with pytest.raises(ValueError, match="one length"):
        scan(lambda c, x: (c, None), x[0], [x, x[:2]])
    with pytest.raises(ValueError, match="return a carry like"):
        scan(lambda c, x: (c[:1], None), x[0], x)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)
        self.register_buffer("mask", torch.linspace(0, 1, 16))

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x)))) * self.mask


def test_layers():
    torch.manual_seed(0)
    want = nn.ModuleList([Layer() for _ in range(5)])
    got = copy.deepcopy(want).to("xla")
    x = torch.randn(2, 3, 16)
    a, b = nn.Sequential(*want)(x), scan_layers(got, x.to("xla"))
    a.square().sum().backward()
    b.square().sum().backward()
    torch.testing.assert_close(b.cpu(), a, rtol=1e-4, atol=1e-4)
    for p, q in zip(want.parameters(), got.parameters(), strict=True):
        torch.testing.assert_close(q.grad.cpu(), p.grad, rtol=1e-3, atol=1e-3)
    assert scan_layers([], x) is x
    with pytest.raises(ValueError, match="Shape mismatch for 'weight' in layer 1"):
        scan_layers([nn.Linear(4, 4, device="xla"), nn.Linear(4, 5, device="xla")], x)
    with pytest.raises(ValueError, match="Layer 1 has mismatched keys"):
        scan_layers([nn.Linear(4, 4, device="xla"), nn.Linear(4, 4, bias=False, device="xla")], x)


def test_layers_compile_as_one():
    sizes = {}
    for count in (3, 12):
        layers = nn.ModuleList([Layer() for _ in range(count)]).to("xla")
        y = scan_layers(layers, torch.randn(2, 3, 16, device="xla"))
        y.sum().backward()
        text = torch_go_xla._XLAC._get_stablehlo([p.grad for p in layers.parameters()])
        sizes[count] = text.count("stablehlo.dot_general")
    assert sizes[3] == sizes[12] > 0


def test_gradients_are_accumulated():
    torch.manual_seed(0)
    want = nn.Linear(4, 2)
    got = copy.deepcopy(want).to("xla")
    x, y = torch.randn(5, 8, 4), torch.randn(5, 8, 2)
    total = sum((want(x[i]) - y[i]).square().mean() / 5 for i in range(5))
    total.backward()

    def step(x, y, count):
        return (got(x) - y).square().mean(), count + 10

    for _ in range(2):
        loss, count = gradient_accumulation(step, (x.to("xla"), y.to("xla")), got, torch.tensor(10, device="xla"))
    torch.testing.assert_close(loss.cpu(), total.detach())
    assert count.item() == 60
    for p, q in zip(want.parameters(), got.parameters(), strict=True):
        torch.testing.assert_close(q.grad.cpu(), 2 * p.grad)
    with pytest.raises(ValueError, match="cannot be empty"):
        gradient_accumulation(step, (), got)
    with pytest.raises(ValueError, match="has 2 rows, the first 3"):
        gradient_accumulation(step, (torch.ones(3), torch.ones(2)), got)


def test_loops_on_the_device():
    i, x = torch.tensor(5, device="xla"), torch.ones(2, device="xla")
    step = torch.full((2,), 3.0, device="xla")
    left, got = while_loop(lambda i, x, s: i > 0, lambda i, x, s: (i - 1, x * s), (i, x), (step,))
    assert left.item() == 0 and got.tolist() == [243.0, 243.0] and x.tolist() == [1.0, 1.0]
    lower, upper = torch.tensor([2], device="xla"), torch.tensor([5], device="xla")
    assert fori_loop(lower, upper, lambda a, b: (a + b, b), x, step)[1].tolist() == [10.0, 10.0]
    with pytest.raises(NotLoweredError, match="writes to its arguments"):
        fori_loop(lower, upper, lambda a: a.add_(1), x)


def test_autograd_functions_of_nested_data():
    @pytreeify
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, data):
            return {"y": data["x"] * 2}

        @staticmethod
        def backward(ctx, gradient):
            return {"x": gradient["y"] * 2}

    x = torch.ones(2, device="xla", requires_grad=True)
    Double.apply({"x": x})["y"].sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
