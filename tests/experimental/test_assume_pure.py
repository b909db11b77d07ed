"""Functions that are traced once."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import torch_go_xla
import torch_go_xla.debug.metrics as met
from torch_go_xla.experimental.assume_pure import PureModule, assume_pure, assume_pure_torch


def test_values_and_gradients_are_torchs() -> None:
    traced = []

    def f(xs: dict[str, Any], by: float, flag: bool = False) -> dict[str, Any]:
        traced.append(by)
        return {"y": torch.sin(xs["a"] @ xs["b"]) * by, "none": None, "by": by + flag}

    torch.manual_seed(0)
    a, b = torch.randn(3, 4), torch.randn(4, 2)
    pure = assume_pure(f)
    counts = []
    for _ in range(3):
        x, y = a.to("xla").requires_grad_(), b.to("xla")
        found = pure({"a": x, "b": y}, 2.0, flag=True)
        found["y"].square().sum().backward()
        torch_go_xla.sync()
        counts.append(len(traced))
        want = a.clone().requires_grad_()
        (torch.sin(want @ b) * 2).square().sum().backward()
        torch.testing.assert_close(x.grad.cpu(), want.grad, rtol=1e-4, atol=1e-4)
        assert found["none"] is None and found["by"] == 3 and y.grad is None
    assert counts[0] == counts[2], "it is called only to be traced"
    pure({"a": x, "b": y}, 3.0)
    assert len(traced) > counts[0]


def test_a_call_is_one_op() -> None:
    @assume_pure
    def f(x: torch.Tensor) -> torch.Tensor:
        for _ in range(50):
            x = x.sin()
        return x

    x = torch.ones(3, device="xla")
    f(x)
    met.clear_counters()
    y = f(x)
    assert met.counter_value("TracedOps") < 5
    torch.testing.assert_close(y, assume_pure_torch(f)(x))


def test_modules() -> None:
    torch.manual_seed(0)
    plain = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4), torch.nn.ReLU()).to("xla")
    x = torch.randn(5, 3, device="xla")
    pure = PureModule(plain)
    pure(x).square().sum().backward()
    got = [p.grad.cpu() for p in plain.parameters()]
    plain.zero_grad()
    plain(x).square().sum().backward()
    torch.testing.assert_close(got, [p.grad.cpu() for p in plain.parameters()], rtol=1e-4, atol=1e-4)


def test_a_module_in_another_mode_is_another_trace() -> None:
    x = torch.ones(64, device="xla")
    for pure in (PureModule(torch.nn.Dropout(0.5)), PureModule(torch.nn.Sequential(torch.nn.Dropout(0.5)))):
        assert pure.eval()(x).tolist() == [1.0] * 64
        pure.train()
        with pytest.raises(torch_go_xla.NotLoweredError):
            pure(x).cpu()


def test_autocast_is_another_trace() -> None:
    a = torch.ones(2, 2, device="xla")
    product = assume_pure(lambda a: a @ a)
    assert product(a).dtype == torch.float32
    with torch.autocast("xla", torch.bfloat16):
        assert product(a).dtype == torch.bfloat16
    assert product(a).dtype == torch.float32


def test_a_function_outlives_many_others() -> None:
    """The core drops functions that nothing has called since many others were made."""
    x = torch.ones(2, device="xla")
    first = assume_pure(lambda x: x * 2)
    with torch.no_grad():
        assert first(x).tolist() == [2, 2]
        for n in range(300):
            assume_pure(lambda x, n=n: x + n)(x)
        torch_go_xla.sync()
        for n in range(300, 600):
            assume_pure(lambda x, n=n: x + n)(x)
        torch_go_xla.sync()
        assert first(x).tolist() == [2, 2]


def test_random_numbers_need_a_seed() -> None:
    x = torch.zeros(4, device="xla")
    before = torch.xla.get_rng_state()
    seeded = assume_pure(lambda x: x + torch.rand_like(x), add_rng_seed_argument=True)
    first, second, again = (seeded(x, rng_seed=n).tolist() for n in (0, 1, 0))
    assert first == again != second
    assert torch.equal(torch.xla.get_rng_state(), before)
    with pytest.raises(AssertionError, match="rng_seed"):
        seeded(x)
    with pytest.raises(torch_go_xla.NotLoweredError, match="draws random numbers"):
        assume_pure(lambda x: x + torch.rand_like(x))(x)
    with pytest.raises(TypeError, match="unhashable"):
        assume_pure(lambda x, y: x)(x, {1, 2})
