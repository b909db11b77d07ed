"""Decompositions raise where torch's do."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import torch_go_xla

NAN, INF = float("nan"), float("inf")


def matrix(n: int, bad: float, batch: bool) -> torch.Tensor:
    a = torch.eye(n) + torch.arange(n * n).reshape(n, n) / n
    a = a + a.mT
    a[-1, 0] = a[0, -1] = bad
    return torch.stack([torch.eye(n), a]) if batch else a


def error(function: Callable[[torch.Tensor], object], a: torch.Tensor) -> str:
    """What is raised, without LAPACK's count of what has not converged, which is a matter of its algorithm."""
    try:
        function(a)
    except torch.linalg.LinAlgError as e:
        return str(e).partition(" (error code")[0]
    return ""


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3, 30])
@pytest.mark.parametrize("bad", [1.0, NAN, INF])
@pytest.mark.parametrize("function", [torch.linalg.svd, torch.linalg.svdvals, torch.linalg.eigvalsh])
def test_not_converged(function: Callable[[torch.Tensor], object], bad: float, n: int, batch: bool) -> None:
    a = matrix(n, bad, batch)
    ours, theirs = error(function, a.to("xla")), error(function, a)
    assert bool(ours) == bool(theirs)
    assert theirs in ours  # of a kernel of torch's the error is that of the program that called it
    torch_go_xla.sync(wait=True)  # does not raise it again


@pytest.mark.parametrize("n", [2, 3])
def test_eigh_of_nan(n: int) -> None:
    """Of larger matrices torch gives NaN, or raises, as its library has it."""
    a = matrix(n, NAN, batch=False)
    assert error(torch.linalg.eigh, a.to("xla")) == error(torch.linalg.eigh, a)


def test_a_compiled_function_has_nan() -> None:
    """It is recorded once, and reads no values."""
    values = torch_go_xla.compile(torch.linalg.svdvals, full_graph=True)
    for bad in (1.0, NAN, 1.0):
        found = values(matrix(3, bad, batch=False).to("xla")).cpu()
        assert found.isnan().all() if bad != 1.0 else torch.isfinite(found).all()


@pytest.mark.parametrize("function", [torch.linalg.svdvals, torch.linalg.eigvalsh, torch.linalg.pinv])
def test_derivatives(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """The check is no part of the graph of gradients."""
    a = matrix(4, 1.0, batch=False).requires_grad_()
    b = a.detach().to("xla").requires_grad_()
    for x in (a, b):
        function(x).sum().backward()  # type: ignore[no-untyped-call]
    assert a.grad is not None and b.grad is not None
    torch.testing.assert_close(b.grad.cpu(), a.grad, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("shape", [(0, 3), (2, 0, 0)])
def test_empty(shape: tuple[int, ...]) -> None:
    a = torch.zeros(shape)
    assert torch.linalg.svdvals(a.to("xla")).cpu().shape == torch.linalg.svdvals(a).shape


@pytest.mark.parametrize("dims", [(3,), (2, 3), (1, 2)])
def test_pivots_of_lu_unpack(dims: tuple[int, ...]) -> None:
    lu, pivots = torch.eye(3).expand(2, 3, 3).contiguous(), torch.ones(dims, dtype=torch.int32)
    errors = []
    for device in ("cpu", "xla"):
        try:
            torch.lu_unpack(lu.to(device), pivots.to(device))[0].cpu()
            errors.append("")
        except ValueError as e:
            errors.append(str(e))
    assert errors[0] == errors[1]
