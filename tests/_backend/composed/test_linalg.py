"""Decompositions raise where torch's do."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import torch_go_xla

NAN, INF = float("nan"), float("inf")

# The values of a decomposition, and the matrix that its parts make.
Decomposition = Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


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


@pytest.mark.parametrize("scale", [1e-20, 1e20])
@pytest.mark.parametrize("function", [torch.linalg.svdvals, torch.linalg.eigvalsh])
def test_derivatives_far_from_one(function: Callable[[torch.Tensor], torch.Tensor], scale: float) -> None:
    a = (matrix(4, 1.0, batch=False) * scale).requires_grad_()
    b = a.detach().to("xla").requires_grad_()
    for x in (a, b):
        function(x).max().backward()  # type: ignore[no-untyped-call]
    assert a.grad is not None and b.grad is not None
    torch.testing.assert_close(b.grad.cpu(), a.grad, rtol=1e-3, atol=1e-3)


def by_qr(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    q, r = torch.linalg.qr(a)
    return r.abs(), q @ r


def by_svd(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    u, s, vh = torch.linalg.svd(a, full_matrices=False)
    return s.diag_embed(), u * s.unsqueeze(-2) @ vh


def by_eigh(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    values, v = torch.linalg.eigh(a)
    return values.diag_embed(), v * values.unsqueeze(-2) @ v.mH


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
@pytest.mark.parametrize("function", [by_qr, by_svd, by_eigh])
def test_far_from_one(function: Decomposition, dtype: torch.dtype) -> None:
    """Squares of single values of these matrices overflow or vanish, those of double values do not."""
    scales = torch.tensor([0, 1e-30, 1e-20, 1, 1e20, 1e30, 1e38], dtype=torch.float64).reshape(-1, 1, 1)
    wide = torch.promote_types(dtype, torch.float64)
    a = torch.rand(4, 4, dtype=wide, generator=torch.Generator().manual_seed(3))
    a = ((a + a.mH) / 4 * scales).to(dtype)
    units = scales.where(scales != 0, 1)
    for ours, theirs in zip(function(a.to("xla")), function(a.to(wide)), strict=True):
        torch.testing.assert_close(ours.cpu().to(wide) / units, theirs.to(wide) / units, rtol=0, atol=3e-6)


def test_columns_far_from_each_other() -> None:
    """Each column of R is as exact as if it were the only one."""
    sizes = torch.tensor([1e-25, 1e25, 1, 1e-15], dtype=torch.float64)
    a = (torch.rand(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(5)) * sizes).float()
    for ours, theirs in zip(by_qr(a.to("xla")), by_qr(a.double()), strict=True):
        torch.testing.assert_close(ours.cpu().double() / sizes, theirs / sizes, rtol=0, atol=3e-6)


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
