"""Collectives through which gradients pass: torch_xla's ``torch_xla.core.functions``."""

from __future__ import annotations

from typing import Any

import torch

from .. import runtime
from ._collectives import REDUCE_SUM, Groups
from ._collectives import all_gather as _gather
from ._collectives import all_reduce as _reduce
from ._collectives import reduce_scatter as _scatter


class _AllReduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, reduce_type: str, scale: float, groups: Groups) -> Any:
        if reduce_type != REDUCE_SUM:
            raise ValueError(f"the gradient of a reduction by {reduce_type!r} is not known: want {REDUCE_SUM!r}")
        ctx.scale, ctx.groups = scale, groups
        return _reduce(reduce_type, value, scale, groups)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return _reduce(REDUCE_SUM, grads[0], ctx.scale, ctx.groups), None, None, None


def all_reduce(
    reduce_type: str,
    value: torch.Tensor,
    scale: float = 1.0,
    groups: Groups = None,
    cctx: Any = None,
    pin_layout: bool = True,
) -> torch.Tensor:
    """Return the sum of the tensors of all processes; gradients are summed too. ValueError for other reductions."""
    return _AllReduce.apply(value, reduce_type, scale, groups)  # type: ignore[no-any-return]


class _AllGather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, dim: int, groups: Groups) -> Any:
        ctx.dim, ctx.groups = dim, groups
        return _gather(value, dim, groups)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        count = len(ctx.groups[0]) if ctx.groups else runtime.world_size()
        return _scatter(REDUCE_SUM, grads[0], 1.0, ctx.dim, count, ctx.groups), None, None


def all_gather(value: torch.Tensor, dim: int = 0, groups: Groups = None, pin_layout: bool = True) -> torch.Tensor:
    """Return the tensors of all processes joined along a dimension; gradients go back to where they belong."""
    return _AllGather.apply(value, dim, groups)  # type: ignore[no-any-return]
