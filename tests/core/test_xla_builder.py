"""Functions of JAX on xla tensors."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import torch_go_xla
import torch_go_xla.core.xla_builder as xb
import torch_go_xla.debug.metrics as met
from torch_go_xla.experimental.assume_pure import assume_pure, j2t_autograd

sys.path.extend(filter(None, [os.environ.get("TGX_JAX_PACKAGES")]))  # `make clients` says where JAX is
needs_jax = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")


@pytest.fixture(autouse=True)
def jax_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    yield


def of(make: Callable[..., torch.Tensor], *size: int, grad: bool = False) -> torch.Tensor:
    torch.manual_seed(0)
    return make(*size).to("xla").requires_grad_(grad)


def test_without_jax_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(ImportError, match=r"pip install .jax\[cpu\]"):
        xb.call_jax(lambda x: x, (torch.ones(2, device="xla"),))


def test_programs_are_not_built_by_hand() -> None:
    with pytest.raises(AttributeError, match="programs are not built by hand"):
        _ = xb.create_builder


@needs_jax
def test_trees_go_in_and_out() -> None:
    import jax.numpy as jnp

    def f(xs: dict[str, Any], n: float, text: str, kind: Any, *, none: Any) -> dict[str, Any]:
        assert none is None and kind == jnp.int32
        return {"y": jnp.sin(xs["a"]) @ xs["b"][0] * n + int(text), "z": (xs["a"].astype(kind), None)}

    a, b, unused = of(torch.randn, 2, 3), of(torch.randn, 3, 4), torch.ones(5, device="xla")
    found = xb.call_jax(f, ({"a": a, "b": [b, unused]}, 2.0, "10", torch.int32), {"none": None}, "name")
    torch.testing.assert_close(found["y"].cpu(), a.cpu().sin() @ b.cpu() * 2 + 10)
    assert found["z"][0].tolist() == a.int().tolist() and found["z"][1] is None
    assert found["z"][0].dtype == torch.int32


@needs_jax
def test_it_is_part_of_the_steps_program() -> None:
    import jax.numpy as jnp

    x = of(torch.randn, 7)
    met.clear_all()
    (xb.call_jax(jnp.sin, (x * 2,)) + 1).sum().item()
    assert met.metric_data("CompileTime")[0] == 1


@needs_jax
def test_it_is_traced_once_for_each_kind_of_arguments() -> None:
    import jax

    traced = []

    def f(x: Any, n: float) -> Any:
        traced.append((x.shape, n))
        return x * n

    x, y = torch.ones(2, device="xla"), torch.ones(3, device="xla")
    for _ in range(2):
        for given in ((x, 1.0), (y, 1.0), (x, 2.0), (x, 1)):
            xb.call_jax(f, given)
    assert traced == [((2,), 1.0), ((3,), 1.0), ((2,), 2.0), ((2,), 1)]
    with jax.default_matmul_precision("highest"):
        xb.call_jax(f, (x, 1.0))
    assert len(traced) == 5, "a setting that may change the program"
    for _ in range(2):
        xb.call_jax(lambda x: f(x, 5.0), (x,), override_hash="mine")
    assert len(traced) == 6


def gradients(f: Callable[..., Any], *inputs: torch.Tensor) -> list[torch.Tensor]:
    """Return the value, the gradients, and those of the sum of the squares of the gradients."""
    value = f(*inputs)
    wanted = [x for x in inputs if x.requires_grad]
    first = torch.autograd.grad(value.square().sum(), wanted, create_graph=True)
    plain = torch.autograd.grad(f(*inputs).square().sum(), wanted)
    second = torch.autograd.grad(sum(g.square().sum() for g in first), wanted)
    return [x.detach().cpu() for x in (value, *first, *plain, *second)]


@needs_jax
def test_gradients_are_torchs() -> None:
    import jax

    x, w, b = of(torch.randn, 4, 3, grad=True), of(torch.randn, 3, 5, grad=True), of(torch.randn, 5)
    ours = gradients(j2t_autograd(lambda x, w, b: jax.nn.tanh(x @ w) * b), x, w, b)
    theirs = gradients(
        lambda x, w, b: (x @ w).tanh() * b, *(t.detach().cpu().requires_grad_(t.requires_grad) for t in (x, w, b))
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@needs_jax
def test_gradients_of_complex_values_are_torchs() -> None:
    x = torch.tensor([1 + 2j, 3 - 1j])
    gradients = []
    for f, on in ((j2t_autograd(lambda x: x * x * 1j), "xla"), (lambda x: x * x * 1j, "cpu")):
        leaf = x.to(on).requires_grad_()
        torch.view_as_real(f(leaf)).square().sum().backward()
        gradients.append(leaf.grad.cpu())
    torch.testing.assert_close(*gradients)


@needs_jax
def test_results_that_have_no_gradient() -> None:
    import jax.numpy as jnp

    x, n = of(torch.randn, 6, grad=True), torch.tensor([2, 1], device="xla")
    largest, place = xb.call_jax(lambda x, n: (x.max() * n.sum(), x.argmax()), (x, n))
    assert largest.requires_grad and not place.requires_grad and place.item() == x.argmax().item()
    largest.backward()
    assert x.grad.tolist() == [3.0 * (i == place.item()) for i in range(6)]
    with torch.no_grad():
        assert not xb.call_jax(jnp.sin, (x,)).requires_grad


@needs_jax
def test_a_model_trains_and_its_step_replays() -> None:
    import jax

    gelu = j2t_autograd(lambda x, w: jax.nn.gelu(x @ w))

    def trained(device: str, f: Callable[..., torch.Tensor]) -> torch.Tensor:
        torch.manual_seed(0)
        w = torch.randn(4, 4).to(device).requires_grad_()
        x = torch.randn(8, 4).to(device)
        optimizer = torch.optim.SGD([w], lr=0.1)

        def step(x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss = f(x, w).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        run = torch_go_xla.compile(step) if device == "xla" else step
        for _ in range(5):
            loss = run(x)
        return loss.detach().cpu()

    theirs = trained("cpu", lambda x, w: torch.nn.functional.gelu(x @ w, approximate="tanh"))
    torch.testing.assert_close(trained("xla", gelu), theirs, rtol=1e-4, atol=1e-5)


@needs_jax
def test_it_is_part_of_functions_that_are_traced() -> None:
    import jax.numpy as jnp

    x = of(torch.randn, 3, grad=True)
    assume_pure(lambda x: xb.call_jax(jnp.sin, (x,)) * 2)(x).sum().backward()
    torch.testing.assert_close(x.grad.cpu(), 2 * x.detach().cpu().cos())


@needs_jax
def test_a_kernel_of_pallas_that_is_interpreted() -> None:
    import jax
    from jax.experimental import pallas as pl

    def kernel(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] * 2 + y_ref[...]

    def call(x: Any, y: Any) -> Any:
        block = pl.BlockSpec((2, 4), lambda i: (i, 0))
        out = jax.ShapeDtypeStruct(x.shape, x.dtype)
        run = pl.pallas_call(
            kernel, out_shape=out, grid=(x.shape[0] // 2,), in_specs=[block, block], out_specs=block, interpret=True
        )
        return run(x, y)

    x, y = of(torch.randn, 8, 4), of(torch.rand, 8, 4)
    torch.testing.assert_close(xb.call_jax(call, (x, y)).cpu(), x.cpu() * 2 + y.cpu())


@needs_jax
def test_types_of_64_bits() -> None:
    labels = torch.tensor([5, -1], device="xla")
    assert xb.call_jax(lambda n: n + 1, (labels,)).dtype == torch.int32
    wide = torch.ones(2, dtype=torch.float64, device="xla")
    with pytest.raises(ValueError, match="jax_enable_x64"):
        xb.call_jax(lambda x: x, (wide,))


@needs_jax
def test_arguments_that_cannot_be() -> None:
    x = torch.ones(2, device="xla")
    with pytest.raises(RuntimeError, match="on cpu"):
        xb.call_jax(lambda x: x, (torch.ones(2),))
    with pytest.raises(TypeError, match="have a set, which is not a tensor and not hashable"):
        xb.call_jax(lambda x, y: x, (x, {1, 2}))
    with pytest.raises(TypeError, match="incompatible shapes"):
        xb.call_jax(lambda x, y: x + y, (x, torch.ones(3, device="xla")))
