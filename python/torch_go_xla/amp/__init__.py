"""Mixed precision: torch_xla's ``torch_xla.amp``. It is torch's own, ``torch.amp``, for the device "xla"."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["GradScaler", "autocast"]


class autocast(torch.amp.autocast):
    """``torch.autocast`` of a device, bfloat16 by default. A context manager and decorator.

    Args:
        device: a device or its type.
        enabled: if False, nothing is cast within the block.
        dtype: the type that matrix products and convolutions compute in: bfloat16 or float16.
        cache_enabled: keep the cast copies of weights within the block; torch's default if None.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.amp import autocast
        >>> x = torch.ones(2, 2, device="xla")
        >>> with autocast():
        ...     y = x @ x
        >>> y.dtype
        torch.bfloat16
    """

    def __init__(
        self,
        device: Any = "xla",
        enabled: bool = True,
        dtype: torch.dtype | None = torch.bfloat16,
        cache_enabled: bool | None = None,
    ) -> None:
        super().__init__(torch.device(device).type, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """``torch.amp.GradScaler`` of the device; with an optimizer of `syncfree` a step reads no value.

    Args:
        device: the device's type.
        init_scale: the first factor of the loss.
        growth_factor: what the factor is multiplied by after ``growth_interval`` steps with finite gradients.
        backoff_factor: what it is multiplied by after a step with an infinite gradient, or NaN. The step is skipped.
        growth_interval: in steps.
        enabled: if False, losses and gradients stay as they are.
        use_zero_grad: accepted for torch_xla's programs.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.amp import GradScaler, syncfree
        >>> w = torch.nn.Parameter(torch.ones(2, device="xla"))
        >>> optimizer, scaler = syncfree.SGD([w], lr=0.5), GradScaler()
        >>> scaler.scale(w.sum()).backward()
        >>> scaler.step(optimizer)
        >>> scaler.update()
        >>> w.tolist(), scaler.get_scale()
        ([0.5, 0.5], 65536.0)
    """

    def __init__(
        self,
        device: str = "xla",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
        use_zero_grad: bool = False,
    ) -> None:
        super().__init__(device, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
