"""Reductions of segments of an axis, made of masked reductions: [..., segments, elements of the axis, ...]."""

from __future__ import annotations

import torch
from torch import Tensor

from ..kernels import KERNELS, add

_INITIAL = {"max": -torch.inf, "min": torch.inf, "sum": 0.0, "mean": 0.0, "prod": 1.0}


def _membership(data: Tensor, lengths: Tensor | None, offsets: Tensor | None, axis: int) -> tuple[Tensor, Tensor]:
    """Return which elements each segment has, with trailing dimensions to broadcast over, and how many."""
    if offsets is None:
        if lengths is None:
            raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
        ends = lengths.cumsum(-1)
        starts = ends - lengths
    else:
        starts, ends = offsets[..., :-1], offsets[..., 1:]
    place = torch.arange(data.shape[axis], device=data.device)
    inside = (place >= starts.unsqueeze(-1)) & (place < ends.unsqueeze(-1))
    trailing = (1,) * (data.dim() - axis - 1)
    sizes = ends - starts
    return inside.reshape(*inside.shape, *trailing), sizes.reshape(*sizes.shape, *trailing)


def _axis(data: Tensor, axis: int, lengths: Tensor | None, offsets: Tensor | None) -> int:
    axis = axis % data.dim() if data.dim() else axis
    given = lengths if offsets is None else offsets
    if given is not None and axis != given.dim() - 1:
        raise RuntimeError("segment_reduce(): Expected axis to be the last dimension of lengths or offsets.")
    return axis


def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Tensor:
    """segment_reduce: max, min, sum, mean or prod of each segment; an empty one has the initial value."""
    if data.numel() == 0 and data.dim() == 0:
        raise RuntimeError("segment_reduce(): Expected data to have dimensions.")
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    if reduce not in _INITIAL:
        raise RuntimeError(f"segment_reduce(): unsupported reduction {reduce}")
    axis = _axis(data, axis, lengths, offsets)
    inside, sizes = _membership(data, lengths, offsets, axis)
    start = _INITIAL[reduce] if initial is None else initial
    neutral = _INITIAL[reduce]
    values = torch.where(inside, data.unsqueeze(axis), neutral)
    dim = axis + 1
    if reduce == "max":
        return values.amax(dim).clamp_min(start)
    if reduce == "min":
        return values.amin(dim).clamp_max(start)
    if reduce == "prod":
        return values.prod(dim) * start
    total = values.sum(dim) + start
    if reduce == "sum":
        return total
    empty = torch.nan if initial is None else start
    return torch.where(sizes > 0, total / sizes, empty)


def segment_reduce_backward(
    grad: Tensor,
    output: Tensor,
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    initial: float | None = None,
) -> Tensor:
    """_segment_reduce_backward: the elements equal to a maximum or minimum share its gradient."""
    axis = _axis(data, axis, lengths, offsets)
    inside, sizes = _membership(data, lengths, offsets, axis)
    dim = axis + 1
    grad, output, one = grad.unsqueeze(dim), output.unsqueeze(dim), data.unsqueeze(axis)
    if reduce in ("max", "min"):
        hit = inside & ((one == output) | one.isnan())
        share = grad / hit.sum(dim, keepdim=True).clamp_min(1)
        return torch.where(hit, share, 0).sum(axis)
    if reduce == "mean":
        grad = grad / sizes.unsqueeze(dim).clamp_min(1)
    if reduce == "prod":
        return torch.where(inside, grad * _others(one, inside, dim, 1.0 if initial is None else initial), 0).sum(axis)
    return torch.where(inside, grad, 0).sum(axis)


def _others(data: Tensor, inside: Tensor, dim: int, initial: float) -> Tensor:
    """Return for each element the product of the others of its segment."""
    x = torch.where(inside, data, 1.0).movedim(dim, -1)
    ones = torch.ones_like(x[..., :1])
    before = torch.cat((ones, x[..., :-1]), -1).cumprod(-1)
    after = torch.cat((ones, x.flip(-1)[..., :-1]), -1).cumprod(-1).flip(-1)
    return (before * after * initial).movedim(-1, dim)


add(KERNELS, {"segment_reduce": segment_reduce, "_segment_reduce_backward": segment_reduce_backward})
