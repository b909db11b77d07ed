"""Helpers of fully sharded modules."""

from __future__ import annotations

import functools
from typing import Any

from torch import nn

from ...utils.checkpoint import checkpoint

__all__ = ["checkpoint_module"]


def checkpoint_module(module: nn.Module) -> nn.Module:
    """Let a module recompute its activations in the backward pass instead of keeping them.

    Args:
        module: the module, which is changed.

    Returns:
        The module.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.distributed.fsdp import checkpoint_module
        >>> layer = checkpoint_module(torch.nn.Linear(4, 2, device="xla"))
        >>> layer(torch.ones(1, 4, device="xla")).sum().backward()
        >>> layer.bias.grad.tolist()
        [1.0, 1.0]
    """
    forward = module.forward

    @functools.wraps(forward)
    def recomputed(*args: Any, **kwargs: Any) -> Any:
        return checkpoint(forward, *args, use_reentrant=False, **kwargs)

    module.forward = recomputed
    return module
