"""Optimizers that skip a step whose gradients are not finite without reading them: torch's, fused."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["SGD", "Adam", "AdamW"]


class SGD(torch.optim.SGD):
    """``torch.optim.SGD`` with ``fused=True``.

    Args:
        params: parameters on the device, or groups of them.
        args: as for ``torch.optim.SGD``.
        options: as for ``torch.optim.SGD``.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.amp import syncfree
        >>> w = torch.nn.Parameter(torch.ones(2, device="xla"))
        >>> syncfree.SGD([w], lr=0.1).defaults["fused"]
        True
    """

    def __init__(self, params: Any, *args: Any, **options: Any) -> None:
        super().__init__(params, *args, **{**options, "fused": True})


class Adam(torch.optim.Adam):
    """``torch.optim.Adam`` with ``fused=True``.

    Args:
        params: parameters on the device, or groups of them.
        args: as for ``torch.optim.Adam``.
        options: as for ``torch.optim.Adam``.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.amp import syncfree
        >>> w = torch.nn.Parameter(torch.ones(2, device="xla"))
        >>> optimizer = syncfree.Adam([w], lr=0.5)
        >>> w.sum().backward()
        >>> optimizer.step()
        >>> [round(value, 4) for value in w.tolist()]
        [0.5, 0.5]
    """

    def __init__(self, params: Any, *args: Any, **options: Any) -> None:
        super().__init__(params, *args, **{**options, "fused": True})


class AdamW(torch.optim.AdamW):
    """``torch.optim.AdamW`` with ``fused=True``.

    Args:
        params: parameters on the device, or groups of them.
        args: as for ``torch.optim.AdamW``.
        options: as for ``torch.optim.AdamW``.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.amp import syncfree
        >>> w = torch.nn.Parameter(torch.ones(2, device="xla"))
        >>> optimizer = syncfree.AdamW([w], lr=0.5, weight_decay=0.0)
        >>> w.sum().backward()
        >>> optimizer.step()
        >>> [round(value, 4) for value in w.tolist()]
        [0.5, 0.5]
    """

    def __init__(self, params: Any, *args: Any, **options: Any) -> None:
        super().__init__(params, *args, **{**options, "fused": True})
