"""Optimizers that skip a step whose gradients are not finite without reading them: torch's, fused."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["SGD", "Adam", "AdamW"]


class SGD(torch.optim.SGD):
    """``torch.optim.SGD`` with ``fused=True``."""

    def __init__(self, params: Any, *args: Any, **options: Any) -> None:
        super().__init__(params, *args, **{**options, "fused": True})


class Adam(torch.optim.Adam):
    """``torch.optim.Adam`` with ``fused=True``."""

    def __init__(self, params: Any, *args: Any, **options: Any) -> None:
        super().__init__(params, *args, **{**options, "fused": True})


class AdamW(torch.optim.AdamW):
    """``torch.optim.AdamW`` with ``fused=True``."""

    def __init__(self, params: Any, *args: Any, **options: Any) -> None:
        super().__init__(params, *args, **{**options, "fused": True})
