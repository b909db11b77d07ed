"""Ops whose result has a size that depends on values: the size is computed and waited for, the rest is recorded.

The counter ``SizeSync`` and the op's name says how often. A program depends on the size, as all programs do. As the
values are waited for anyway, torch's kernel computes all of it where the device is the CPU.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from ..core import is_recording, is_xla, native
from ..kernels import KERNELS, UNSIZED, add

_aten = torch.ops.aten


def _size(name: str, count: Tensor) -> int:
    native().count(f"SizeSync.aten::{name}")
    return int(count.item())


def _by_torch(name: str, composed: Callable[..., Any]) -> Callable[..., Any]:
    """Return an op that runs torch's kernel on the CPU device, and elsewhere what it is composed of.

    A function that is recorded to run again has to record the op.
    """
    op = getattr(_aten, name).default

    @functools.wraps(composed)
    def sized(*args: Any, **kwargs: Any) -> Any:
        tensors = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
        if is_recording() or not all(map(is_xla, tensors)) or not native().torch_kernels():
            return composed(*args, **kwargs)
        device = tensors[0].device
        native().count(f"SizeSync.aten::{name}")
        result = op(*tree_map(_on_host, args), **tree_map(_on_host, kwargs))
        return tree_map(lambda x: x.to(device), result)

    return sized


def _on_host(x: Any) -> Any:
    return x.cpu() if is_xla(x) else x


def nonzero(self: Tensor) -> Tensor:
    """nonzero: the places of the elements that are not zero, int64 [count, rank], column by column as torch's."""
    return _positions("nonzero", self).t().contiguous().t()


def _positions(name: str, mask: Tensor) -> Tensor:
    size = _size(name, torch.count_nonzero(mask))
    return _aten.nonzero_static(mask, size=size)  # type: ignore[no-any-return]


def masked_select(self: Tensor, mask: Tensor) -> Tensor:
    """masked_select: a vector of the elements where the mask, broadcast, is true."""
    if mask.dtype != torch.bool:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    self, mask = torch.broadcast_tensors(self, mask)  # type: ignore[no-untyped-call]
    return self.flatten()[_positions("masked_select", mask.flatten()).flatten()]


def bincount(self: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """bincount: how often each number from 0 on occurs, or the sum of the weights there."""
    if self.dim() != 1 or self.is_floating_point() or self.dtype == torch.bool:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if weights is not None and weights.shape != self.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    if self.numel() == 0:
        return self.new_zeros(minlength, dtype=torch.int64)
    least, most = torch.stack(torch.aminmax(self)).tolist()
    native().count("SizeSync.aten::bincount")
    if least < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    bins = max(minlength, int(most) + 1)
    if weights is None:
        weights = torch.ones_like(self, dtype=torch.int64)
    elif weights.dtype != torch.float32:
        weights = weights.to(torch.float64)
    return weights.new_zeros(bins).scatter_add_(0, self.to(torch.int64), weights)


def repeat_interleave(repeats: Tensor, *, output_size: int | None = None) -> Tensor:
    """repeat_interleave.Tensor without output_size."""
    least, total = torch.stack((repeats.amin(), repeats.sum().to(repeats.dtype))).tolist()
    native().count("SizeSync.aten::repeat_interleave")
    if least < 0:
        raise RuntimeError("repeats can not be negative")
    return _aten.repeat_interleave.Tensor(repeats, output_size=int(total))  # type: ignore[no-any-return]


def _unique(self: Tensor, sorted: bool = True, return_inverse: bool = False) -> tuple[Tensor, Tensor]:
    values, inverse, _ = _of_sorted("_unique", self, return_inverse, False)
    return values, inverse


def _unique2(
    self: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    return _of_sorted("_unique2", self, return_inverse, return_counts)


def _of_sorted(name: str, x: Tensor, inverse: bool, counts: bool) -> tuple[Tensor, Tensor, Tensor]:
    flat, order = torch.sort(x.flatten(), stable=True)
    values, group, sizes = _runs(name, flat, flat[1:] != flat[:-1], counts)
    none = x.new_empty(0, dtype=torch.int64)
    places = torch.empty_like(order).scatter_(0, order, group).reshape(x.shape) if inverse else none
    return values, places, sizes


def _runs(name: str, x: Tensor, changes: Tensor, counts: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return the first slice of each run of equal slices of x, each slice's run, and the sizes of the runs."""
    n = x.shape[0]
    if n == 0:
        none = x.new_empty(0, dtype=torch.int64)
        return x, none, none
    first = torch.cat((changes.new_ones(1), changes))
    starts = _positions(name, first).flatten()
    sizes = torch.diff(starts, append=starts.new_full((1,), n)) if counts else starts.new_empty(0)
    return x.index_select(0, starts), first.cumsum(0) - 1, sizes


def unique_consecutive(
    self: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """unique_consecutive: runs of equal elements, or of equal slices along dim."""
    if dim is None:
        x = self.flatten()
        values, group, sizes = _runs("unique_consecutive", x, x[1:] != x[:-1], return_counts)
        group = group.reshape(self.shape)
    else:
        x, rows = _slices(self, dim)
        values, group, sizes = _runs("unique_consecutive", x, (rows[1:] != rows[:-1]).any(1), return_counts)
        values = values.movedim(0, dim).contiguous()
    return values, group if return_inverse else group.new_empty(0), sizes


def unique_dim(
    self: Tensor, dim: int, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """unique_dim: the different slices along dim, in lexicographic order."""
    x, rows = _slices(self, dim)
    order = torch.arange(x.shape[0], device=x.device)
    for column in reversed(range(rows.shape[1])):  # stable sorts, the most significant column last
        order = order[rows[:, column][order].argsort(stable=True)]
    x, rows = x[order], rows[order]
    values, group, sizes = _runs("unique_dim", x, (rows[1:] != rows[:-1]).any(1), return_counts)
    inverse = torch.empty_like(order).scatter_(0, order, group) if return_inverse else order.new_empty(0)
    return values.movedim(0, dim).contiguous(), inverse, sizes


def _slices(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Return x with dim first, and its slices there as rows of a matrix."""
    x = x.movedim(dim, 0)
    if 0 in x.shape[1:]:
        raise RuntimeError("There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")
    return x, x.reshape(x.shape[0], math.prod(x.shape[1:]))


_SIZED: dict[str, Callable[..., Any]] = {
    "nonzero": nonzero,
    "masked_select": masked_select,
    "bincount": bincount,
    "_unique": _unique,
    "_unique2": _unique2,
    "unique_dim": unique_dim,
    "unique_consecutive": unique_consecutive,
}

add(KERNELS, {name: _by_torch(name, composed) for name, composed in _SIZED.items()})
add(UNSIZED, {"repeat_interleave.Tensor": repeat_interleave})
