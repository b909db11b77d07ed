"""Fake quantization: numbers are rounded to those that an integer type would hold, and stay floating-point."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..kernels import KERNELS, add

_aten = torch.ops.aten


def _rounded(x: Tensor, scale: Any, inverse: Any, zero_point: Any, low: int, high: int) -> tuple[Tensor, Tensor]:
    """Return (q - zero_point) * scale for the integers q in [low, high] next to x, and where none was out of it."""
    wide = x.float() if x.dtype.itemsize == 2 else x
    if isinstance(zero_point, Tensor) and zero_point.is_floating_point():
        q = torch.round(wide * inverse + zero_point)
    else:
        q = torch.round(wide * inverse) + zero_point
    inside = (q >= low) & (q <= high)
    return ((q.nan_to_num(low).clamp(low, high) - zero_point) * scale).to(x.dtype), inside


def per_tensor(self: Tensor, scale: float, zero_point: int, quant_min: int, quant_max: int) -> tuple[Tensor, Tensor]:
    """fake_quantize_per_tensor_affine_cachemask: the numbers, and where the gradient passes."""
    none = torch.empty(0, dtype=self.dtype)
    _aten.fake_quantize_per_tensor_affine_cachemask(none, scale, zero_point, quant_min, quant_max)  # torch's checks
    single = torch.tensor(scale, dtype=torch.float32)
    return _rounded(self, single.item(), (1 / single).item(), zero_point, quant_min, quant_max)


def per_tensor_of_tensors(
    self: Tensor, scale: Tensor, zero_point: Tensor, fake_quant_enabled: Tensor, quant_min: int, quant_max: int
) -> tuple[Tensor, Tensor]:
    """_fake_quantize_per_tensor_affine_cachemask_tensor_qparams: as per_tensor, or self where it is not enabled."""
    scale, zero_point = scale.reshape(()).float(), zero_point.reshape(()).long()
    rounded, inside = _rounded(self, scale, 1 / scale, zero_point, quant_min, quant_max)
    enabled = fake_quant_enabled.reshape(()).bool()
    return torch.where(enabled, rounded, self), inside | ~enabled


def per_channel(
    self: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> tuple[Tensor, Tensor]:
    """fake_quantize_per_channel_affine_cachemask: as per_tensor, with a scale for each place of a dimension."""
    sizes = [0] * self.dim()
    if -self.dim() <= axis < self.dim():
        sizes[axis] = self.shape[axis]
    none = torch.empty(sizes, dtype=self.dtype)
    scales = torch.ones(scale.shape, dtype=scale.dtype)
    zeros = torch.full(zero_point.shape, quant_min, dtype=zero_point.dtype)
    _aten.fake_quantize_per_channel_affine_cachemask(none, scales, zeros, axis, quant_min, quant_max)  # torch's checks
    shape = [-1 if d == axis % self.dim() else 1 for d in range(self.dim())]
    scale, zero_point = scale.float().reshape(shape), zero_point.reshape(shape)
    if zero_point.is_floating_point():
        zero_point = zero_point.float()
    return _rounded(self, scale, 1 / scale, zero_point, quant_min, quant_max)


def int8_mm(self: Tensor, mat2: Tensor, scales: Tensor) -> Tensor:
    """_weight_int8pack_mm: self [m, k] by int8 weights [n, k], each row of these with its scale."""
    return self @ mat2.to(self.dtype).t() * scales


add(
    KERNELS,
    {
        "fake_quantize_per_tensor_affine_cachemask": per_tensor,
        "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": per_tensor_of_tensors,
        "fake_quantize_per_channel_affine_cachemask": per_channel,
        "_weight_int8pack_mm": int8_mm,
    },
)
