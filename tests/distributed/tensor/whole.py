"""Whole tensors of distributed ones."""

from __future__ import annotations

import torch
from torch.distributed.tensor import DTensor


def whole(t: torch.Tensor) -> torch.Tensor:
    """Return all of a tensor on the CPU."""
    return (t.full_tensor() if isinstance(t, DTensor) else t).detach().cpu()


def same(ours: torch.Tensor, theirs: torch.Tensor, **tolerance: float) -> None:
    """Compare a tensor on the devices with one on the CPU."""
    torch.testing.assert_close(whole(ours), theirs.detach(), **tolerance)
