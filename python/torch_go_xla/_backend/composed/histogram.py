"""Histograms over several dimensions, made of those over one and of sums by index."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..kernels import KERNELS, add

_NAME = "torch.histogramdd"


def _check(x: Tensor, bins: Sequence[Any], weight: Tensor | None) -> None:
    if x.dim() < 2:
        raise RuntimeError(f"{_NAME}: input tensor should have at least 2 dimensions")
    if not x.dtype.is_floating_point or x.dtype.itemsize < 4:
        raise NotImplementedError(f"\"histogramdd\" not implemented for '{str(x.dtype).removeprefix('torch.')}'")
    n = x.shape[-1]
    if len(bins) != n:
        raise RuntimeError(
            f"{_NAME}: expected {n} sequences of bin edges for a {n}-dimensional histogram but got {len(bins)}"
        )
    if weight is not None and weight.dtype != x.dtype:
        raise RuntimeError(
            f"{_NAME}: if weight tensor is provided, input tensor and weight tensor should have the same dtype, but "
            f"got input({x.dtype}), and weight({weight.dtype})"
        )
    if weight is not None and weight.shape != x.shape[:-1]:
        raise RuntimeError(
            f"{_NAME}: if weight tensor is provided it should have the same shape as the input tensor excluding its "
            f"innermost dimension, but got input with shape {list(x.shape)} and weight with shape {list(weight.shape)}"
        )


def bin_edges(
    self: Tensor,
    bins: Sequence[int],
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> list[Tensor]:
    """_histogramdd_bin_edges: the edges of each dimension, over its range or from the least to the greatest element."""
    _check(self, bins, weight)
    if range is not None and len(range) != 2 * len(bins):
        raise RuntimeError(
            f"{_NAME}: for a {len(bins)}-dimensional histogram range should have {2 * len(bins)} elements, but got "
            f"{len(range)}"
        )
    points = self.reshape(-1, len(bins))
    edges = []
    for d, count in enumerate(bins):
        given = None if range is None else list(range[2 * d : 2 * d + 2])
        edges.append(torch.histogram(points[:, d], count, range=given)[1])
    return edges


def from_edges(self: Tensor, bins: Sequence[Tensor], *, weight: Tensor | None = None, density: bool = False) -> Tensor:
    """_histogramdd_from_bin_tensors: the weights of the points of self [..., n] in each cell of a grid."""
    _check(self, bins, weight)
    for d, edges in enumerate(bins):
        if edges.dtype != self.dtype:
            raise RuntimeError(
                f"{_NAME}: input tensor and bins tensors should have the same dtype, but got input with dtype "
                f"{self.dtype} and bins for dimension {d} with dtype {edges.dtype}"
            )
        if edges.dim() != 1 or edges.numel() == 0:
            raise RuntimeError(
                f"{_NAME}: bins tensor should have one dimension and at least 1 element, but got shape "
                f"{list(edges.shape)} for dimension {d}"
            )
    points = self.reshape(-1, len(bins))
    shape = [edges.numel() - 1 for edges in bins]
    cell = torch.zeros(len(points), dtype=torch.int64, device=self.device)
    inside = torch.ones_like(cell, dtype=torch.bool)
    for d, edges in enumerate(bins):
        x = points[:, d].contiguous()
        inside = inside & (x >= edges[0]) & (x <= edges[-1])
        place = torch.searchsorted(edges.contiguous(), x, right=True) - 1
        cell = cell * shape[d] + place.clamp(0, max(shape[d] - 1, 0))  # the last edge belongs to the last cell
    hist = self.new_zeros(math.prod(shape))
    if hist.numel():
        amounts = inside.to(self.dtype) if weight is None else torch.where(inside, weight.reshape(-1), 0)
        hist = hist.scatter_add(0, cell, amounts)
    hist = hist.reshape(shape)
    if density:
        hist = hist / hist.sum()
        for d, edges in enumerate(bins):
            hist = hist / edges.diff().reshape([-1 if k == d else 1 for k in range(len(bins))])
    return hist


def from_counts(
    self: Tensor,
    bins: Sequence[int],
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Tensor:
    """_histogramdd_from_bin_cts: from_edges with the edges of bin_edges."""
    return from_edges(self, bin_edges(self, bins, range=range, weight=weight), weight=weight, density=density)


add(
    KERNELS,
    {
        "_histogramdd_bin_edges": bin_edges,
        "_histogramdd_from_bin_tensors": from_edges,
        "_histogramdd_from_bin_cts": from_counts,
    },
)
