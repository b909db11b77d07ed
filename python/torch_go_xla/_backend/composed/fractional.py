"""Fractional max pooling: windows of one size at places that a sample in [0, 1) spreads over the input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..kernels import KERNELS, add

_aten = torch.ops.aten


def _starts(sample: Tensor, size: int, out: int, window: int) -> Tensor:
    """Return where the windows of each plane start, int64 [..., out]."""
    last = torch.full((*sample.shape, 1), size - window, device=sample.device)
    if out == 1:
        return last
    alpha = torch.tensor(size - window, dtype=sample.dtype) / torch.tensor(out - 1, dtype=sample.dtype)
    steps = torch.arange(out - 1, dtype=sample.dtype, device=sample.device)
    sample, step = sample.unsqueeze(-1), float(alpha)
    places = ((steps + sample) * step).long() - (sample * step).long()
    return torch.cat((places, last), -1)


def _forward(
    op: Any, self: Tensor, window: Sequence[int], out: Sequence[int], samples: Tensor
) -> tuple[Tensor, Tensor]:
    def meta(x: Tensor) -> Tensor:
        return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta")

    shape = op(meta(self), window, out, meta(samples))[0].shape  # and torch's checks
    rank = len(out)
    sizes = self.shape[-rank:]
    planes = self.flatten(-rank).reshape(self.shape[:-rank].numel(), sizes.numel())
    samples = samples.reshape(len(planes), rank)
    flat: Any = 0  # [planes, out..., window...]
    for d, (size, n, k) in enumerate(zip(sizes, out, window, strict=True)):
        # The last sample is that of the first dimension of an image, the first sample that of a volume.
        sample = samples[:, rank - 1 - d if rank == 2 else d]
        index = _starts(sample, size, n, k).unsqueeze(-1) + torch.arange(k, device=self.device)
        view = [len(planes)] + [1] * (2 * rank)
        view[1 + d], view[1 + rank + d] = n, k
        flat = flat * size + index.reshape(view)
    flat = flat.flatten(rank + 1)
    values = planes.gather(1, flat.flatten(1)).reshape(flat.shape)
    best, place = values.max(-1)
    return best.reshape(shape), flat.gather(-1, place.unsqueeze(-1)).reshape(shape)


def _backward(grad: Tensor, self: Tensor, rank: int, indices: Tensor) -> Tensor:
    zeros = torch.zeros_like(self).flatten(-rank)
    return zeros.scatter_add(-1, indices.flatten(-rank), grad.flatten(-rank)).reshape(self.shape)


def fractional_max_pool2d(
    self: Tensor, kernel_size: Sequence[int], output_size: Sequence[int], random_samples: Tensor
) -> tuple[Tensor, Tensor]:
    """fractional_max_pool2d: the maxima and their places in the plane."""
    return _forward(_aten.fractional_max_pool2d, self, kernel_size, output_size, random_samples)


def fractional_max_pool3d(
    self: Tensor, kernel_size: Sequence[int], output_size: Sequence[int], random_samples: Tensor
) -> tuple[Tensor, Tensor]:
    """fractional_max_pool3d: the maxima and their places in the volume."""
    return _forward(_aten.fractional_max_pool3d, self, kernel_size, output_size, random_samples)


def fractional_max_pool2d_backward(grad_output: Tensor, self: Tensor, _: Any, __: Any, indices: Tensor) -> Tensor:
    """fractional_max_pool2d_backward."""
    return _backward(grad_output, self, 2, indices)


def fractional_max_pool3d_backward(grad_output: Tensor, self: Tensor, _: Any, __: Any, indices: Tensor) -> Tensor:
    """fractional_max_pool3d_backward."""
    return _backward(grad_output, self, 3, indices)


add(
    KERNELS,
    {
        "fractional_max_pool2d": fractional_max_pool2d,
        "fractional_max_pool3d": fractional_max_pool3d,
        "fractional_max_pool2d_backward": fractional_max_pool2d_backward,
        "fractional_max_pool3d_backward": fractional_max_pool3d_backward,
    },
)
