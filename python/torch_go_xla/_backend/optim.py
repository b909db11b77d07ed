"""Optimizers whose first step is another program than the later ones."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

_begun: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()  # those that have made a step


def _begin(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    """Give SGD its momentum before the first step, which copies the gradients there: to add them to zeros is the same.

    With dampening the first step differs from the later ones.
    """
    if optimizer in _begun or not isinstance(optimizer, torch.optim.SGD):
        return
    _begun.add(optimizer)
    for group in optimizer.param_groups:
        if not group["momentum"] or group["dampening"] or group["differentiable"]:
            continue
        for p in group["params"]:
            if p.device.type == "xla" and p.grad is not None:
                state = optimizer.state[p]
                if state.get("momentum_buffer") is None:
                    state["momentum_buffer"] = torch.zeros_like(p.grad)


def register() -> None:
    """Watch the first step of every optimizer."""
    register_optimizer_step_pre_hook(_begin)
