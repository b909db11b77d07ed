"""Activation checkpointing: torch_xla's ``torch_xla.utils.checkpoint``.

The forward and the backward pass of a step are one program. The compiler finds what is computed twice there, and keeps
the first result. So ``torch.utils.checkpoint`` by itself saves no memory. Here the second computation starts behind an
optimization barrier, so that the compiler sees other inputs. XLA's compiler for the CPU drops such barriers too early,
so this saves no memory there.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
import torch.utils.checkpoint
from torch.utils import _pytree as pytree

from .._backend.core import is_xla

__all__ = ["checkpoint"]


class _Barrier(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        results = tuple(torch.ops.torch_go_xla.optimization_barrier(tensors))
        ctx.mark_non_differentiable(*(r for r, needed in zip(results, ctx.needs_input_grad, strict=True) if not needed))
        return results

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads


def _apart(tree: Any) -> Any:
    """Return nested arguments with the tensors' values behind one barrier."""
    leaves, spec = pytree.tree_flatten(tree)
    places = [i for i, leaf in enumerate(leaves) if is_xla(leaf)]
    if places:
        for i, t in zip(places, _Barrier.apply(*(leaves[i] for i in places)), strict=True):
            leaves[i] = t
    return pytree.tree_unflatten(leaves, spec)


def checkpoint(function: Callable[..., Any], *args: Any, use_reentrant: bool = True, **options: Any) -> Any:
    """Return ``function(*args)``, of which the backward pass computes the intermediate values again.

    Args:
        function: as for ``torch.utils.checkpoint.checkpoint``, as are the others.
        args: its arguments.
        use_reentrant: by default True.
        options: other options of ``torch.utils.checkpoint.checkpoint``.

    Returns:
        What the function returns.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.utils.checkpoint import checkpoint
        >>> x = torch.ones(2, device="xla", requires_grad=True)
        >>> checkpoint(lambda x: x.exp().sin(), x, use_reentrant=False).sum().backward()
        >>> torch.allclose(x.grad.cpu(), x.detach().cpu().exp().cos() * x.detach().cpu().exp())
        True
    """
    calls = itertools.count()

    def run(*args: Any, **kwargs: Any) -> Any:
        if next(calls):
            args, kwargs = _apart((args, kwargs))
        return function(*args, **kwargs)

    return torch.utils.checkpoint.checkpoint(run, *args, use_reentrant=use_reentrant, **options)
