"""Ops whose result has a size that depends on values: the size is computed and waited for, the rest is recorded.

The counter ``SizeSync`` and the op's name says how often. A program depends on the size, as all programs do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .core import native

_aten = torch.ops.aten

Kernel = Callable[..., Any]


def _size(name: str, count: Tensor) -> int:
    native().count(f"SizeSync.aten::{name}")
    return int(count.item())


def nonzero(self: Tensor) -> Tensor:
    """nonzero: the places of the elements that are not zero, int64 [count, rank]."""
    return _positions("nonzero", self)


def _positions(name: str, mask: Tensor) -> Tensor:
    size = _size(name, torch.count_nonzero(mask))
    return _aten.nonzero_static(mask, size=size)  # type: ignore[no-any-return]


def masked_select(self: Tensor, mask: Tensor) -> Tensor:
    """masked_select: a vector of the elements where the mask, broadcast, is true."""
    if mask.dtype != torch.bool:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    self, mask = torch.broadcast_tensors(self, mask)
    return self.flatten()[_positions("masked_select", mask.flatten()).flatten()]


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
        x = self.movedim(dim, 0)
        if x.shape[0] == 0 and x.numel() == 0 and any(n == 0 for n in x.shape[1:]):
            raise RuntimeError("There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")
        rows = x.reshape(x.shape[0], math.prod(x.shape[1:]))
        changes = (rows[1:] != rows[:-1]).any(1)
        values, group, sizes = _runs("unique_consecutive", x, changes, return_counts)
        values = values.movedim(0, dim).contiguous()
    return values, group if return_inverse else group.new_empty(0), sizes


def kernels() -> dict[str, Kernel]:
    """Return the kernels of ops without a row, by overload."""
    return {
        "nonzero": nonzero,
        "masked_select": masked_select,
        "_unique": _unique,
        "_unique2": _unique2,
        "unique_consecutive": unique_consecutive,
    }


# Rows that cannot tell the size of their result from what they are given, and what tells it.
UNSIZED: dict[str, Kernel] = {"repeat_interleave.Tensor": repeat_interleave}
