"""Mixed precision: torch_xla's ``torch_xla.amp``. It is torch's own, ``torch.amp``, for the device "xla"."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["GradScaler", "autocast"]


class autocast(torch.amp.autocast):
    """``torch.autocast`` of a device, bfloat16 by default."""

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

    ``use_zero_grad`` is accepted for torch_xla's programs.
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
