"""Sparse tensors and what compares them on xla and on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from torch_go_xla._backend.sparse_parts import is_sparse, parts

Case = Callable[..., Any]


def matrix(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """4×5, two of its seven elements at one place, not in order."""
    indices = torch.tensor([[3, 0, 2, 0, 1, 3, 2], [1, 4, 2, 0, 3, 1, 0]])
    return torch.sparse_coo_tensor(indices, values(7, dtype), (4, 5))


def values(n: int, dtype: torch.dtype, *dense: int) -> torch.Tensor:
    """Numbers from −3 on that are exact in every type, none of them 0."""
    x = torch.arange(n).reshape(n, *(1,) * len(dense)) + torch.arange(max(torch.Size(dense).numel(), 1)).reshape(dense)
    if dtype == torch.bool:
        return x % 3 != 0
    x = (x % 7 - 3).where(x % 7 != 3, torch.tensor(5))
    return (x.abs() if dtype == torch.uint8 else x / 4 if dtype.is_floating_point else x).to(dtype)


def hybrid() -> torch.Tensor:
    """4×5 of vectors of three elements, with a place that occurs twice."""
    indices = torch.tensor([[3, 0, 2, 3], [1, 4, 2, 1]])
    return torch.sparse_coo_tensor(indices, values(4, torch.float32, 3), (4, 5, 3))


def other() -> torch.Tensor:
    """4×5, in order, with some of the places of `matrix`."""
    indices = torch.tensor([[0, 1, 1, 3], [4, 0, 3, 1]])
    return torch.sparse_coo_tensor(indices, values(4, torch.float32), (4, 5)).coalesce()


def empty() -> torch.Tensor:
    """4×5 without elements."""
    return torch.sparse_coo_tensor(torch.empty((2, 0), dtype=torch.int64), torch.empty(0), (4, 5))


def dense(*size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Numbers that are exact in every type."""
    return ((torch.arange(torch.Size(size).numel()) * 5 % 11 - 4) / 4).reshape(size).to(dtype)


def on(device: str, tree: Any) -> Any:
    """Copy the tensors of a tree to a device; those that require gradients do so there."""

    def one(x: Any) -> Any:
        return x.detach().to(device).requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x

    return torch.utils._pytree.tree_map(one, tree)


def assert_same(got: Any, want: Any) -> None:
    """Compare results: kinds, types, shapes, for coalesced tensors their elements too, and values."""
    if not isinstance(want, torch.Tensor):
        assert type(got) is type(want)
        if isinstance(want, (list, tuple)):
            for g, w in zip(got, want, strict=True):
                assert_same(g, w)
        else:
            assert got == want
        return
    assert got.device.type == "xla"
    assert (got.layout, got.dtype, got.shape) == (want.layout, want.dtype, want.shape)
    assert got.requires_grad == want.requires_grad
    got, want = got.detach(), want.detach()
    if want.layout == torch.sparse_coo:
        assert (got.sparse_dim(), got.is_coalesced()) == (want.sparse_dim(), want.is_coalesced())
    if is_sparse(want) and (want.layout != torch.sparse_coo or want.is_coalesced()):
        for g, w in zip(parts(got), parts(want), strict=True):
            torch.testing.assert_close(g.cpu(), w, equal_nan=True)
    torch.testing.assert_close(got.cpu().to_dense(), want.to_dense(), equal_nan=True)


def compare(case: Case, *args: Any) -> None:
    """Run a case on both devices; where it raises on the CPU it has to raise the same class on xla."""
    try:
        want = case(*on("cpu", args))
    except Exception as e:
        kind = type(e)
    else:
        assert_same(case(*on("xla", args)), want)
        return
    try:
        case(*on("xla", args))
    except kind:
        return
    raise AssertionError(f"the CPU raises {kind.__name__}")


def gradients(case: Case) -> Case:
    """Return a case that gives the gradients by its operands of a weighted sum of its result."""

    def run(*args: torch.Tensor) -> list[torch.Tensor]:
        args = tuple(x.detach().clone().requires_grad_() for x in args)
        result = case(*args)
        result = result.to_dense() if is_sparse(result) else result
        weights = (torch.arange(result.numel(), device=result.device) % 5 - 1).reshape(result.shape)
        return list(torch.autograd.grad((result * weights).sum(), args))

    return run
