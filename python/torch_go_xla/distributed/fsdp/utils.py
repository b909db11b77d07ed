"""Helpers of fully sharded modules."""

from __future__ import annotations

import functools
from typing import Any

from torch import nn

from ...utils.checkpoint import checkpoint

__all__ = ["checkpoint_module"]


def checkpoint_module(module: nn.Module) -> nn.Module:
    """Let a module recompute its activations in the backward pass instead of keeping them; returns the module."""
    forward = module.forward

    @functools.wraps(forward)
    def recomputed(*args: Any, **kwargs: Any) -> Any:
        return checkpoint(forward, *args, use_reentrant=False, **kwargs)

    module.forward = recomputed
    return module
