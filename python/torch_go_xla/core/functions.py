"""Collectives through which gradients pass: torch_xla's ``torch_xla.core.functions``."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from .. import runtime
from ._collectives import REDUCE_SUM, Groups
from ._collectives import all_gather as _gather
from ._collectives import all_reduce as _reduce
from ._collectives import reduce_scatter as _scatter

__all__ = ["SyncBatchNorm", "all_gather", "all_reduce", "distributed_mm"]


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
    """Return the sum of the tensors of all processes; gradients are summed too.

    Args:
        reduce_type: ``xm.REDUCE_SUM``.
        value: a tensor, of the same shape in all processes.
        scale: the sum, and each gradient, is multiplied by it.
        groups: lists of the processes that sum their tensors; all processes in one by default.
        cctx: accepted for torch_xla's programs.
        pin_layout: accepted for torch_xla's programs.

    Returns:
        A tensor of the same shape.

    Raises:
        ValueError: another reduction than the sum, whose gradient is not known.

    Example:
        >>> import torch, torch_go_xla.core.functions as xf
        >>> x = torch.ones(2, device="xla", requires_grad=True)
        >>> xf.all_reduce("sum", x * x).sum().backward()
        >>> x.grad.tolist()  # of n processes n times as much
        [2.0, 2.0]
    """
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
    """Return the tensors of all processes joined along a dimension; gradients go back to where they belong.

    Args:
        value: a tensor, of the same shape in all processes.
        dim: the dimension. Its size in the result is that of ``value`` times the number of processes.
        groups: lists of the processes that join their tensors; all processes in one by default.
        pin_layout: accepted for torch_xla's programs.

    Example:
        >>> import torch, torch_go_xla.core.functions as xf
        >>> x = torch.ones(2, device="xla", requires_grad=True)
        >>> xf.all_gather(x).sum().backward()
        >>> x.grad.tolist()
        [1.0, 1.0]
    """
    return _AllGather.apply(value, dim, groups)  # type: ignore[no-any-return]


def distributed_mm(w: torch.Tensor, x: torch.Tensor, split: int = 1) -> torch.Tensor:
    """Return the product of a weight, of which each process has some columns, with its own ``x``.

    Args:
        w: this process's columns, [N, K].
        x: [K * processes, M], this process's own.
        split: accepted for torch_xla's programs, which gather ``x`` in so many parts; here the weight is gathered.

    Returns:
        [N, M].

    Example:
        >>> import torch, torch_go_xla.core.functions as xf
        >>> w, x = torch.ones(2, 3, device="xla"), torch.ones(3, 4, device="xla")  # 3 * n rows for n processes
        >>> tuple(xf.distributed_mm(w, x).shape)
        (2, 4)
    """
    return all_gather(w, dim=1) @ x


class SyncBatchNorm(nn.modules.batchnorm._BatchNorm):
    """Batch normalization of inputs [N, C, ...] over the batches of all processes, whose sizes may differ.

    The parameters are those of ``torch.nn.BatchNorm2d``.

    Example:
        >>> import torch, torch_go_xla.core.functions as xf
        >>> norm = xf.SyncBatchNorm(3).to("xla")
        >>> tuple(norm(torch.randn(8, 3, 4, 4, device="xla")).shape)  # by means and variances of all processes
        (8, 3, 4, 4)
    """

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """Return the normalized batch.

        Args:
            batch: [N, C, ...].

        Returns:
            The same shape.

        Raises:
            ValueError: the input has no channels.

        Example:
            >>> import torch, torch_go_xla.core.functions as xf
            >>> xf.SyncBatchNorm(3).to("xla").forward(torch.randn(8, device="xla"))
            Traceback (most recent call last):
            ValueError: expected at least 2D input (got 1D input)
        """
        self._check_input_dim(batch)
        if not self.training and self.track_running_stats:
            return super().forward(batch)
        others = [d for d in range(batch.dim()) if d != 1]
        along = [-1 if d == 1 else 1 for d in range(batch.dim())]  # as which a value of each channel meets it
        own = batch.new_full((1,), batch.numel() // batch.size(1))
        total = all_reduce(REDUCE_SUM, torch.cat([batch.sum(others), own]))
        count = total[-1]
        mean = total[:-1] / count
        centered = batch - mean.view(along)
        variance = all_reduce(REDUCE_SUM, centered.square().sum(others)) / count
        if self.training and self.track_running_stats:
            self._track(mean.detach(), (variance * count / (count - 1)).detach())
        normal = centered * torch.rsqrt(variance + self.eps).view(along)
        return torch.addcmul(self.bias.view(along), normal, self.weight.view(along)) if self.affine else normal

    def _track(self, mean: torch.Tensor, variance: torch.Tensor) -> None:
        seen = self.get_buffer("num_batches_tracked").add_(1)
        by = 1.0 / seen if self.momentum is None else self.momentum
        for name, value in (("running_mean", mean), ("running_var", variance)):
            running = self.get_buffer(name)
            running.add_((value - running) * by)
