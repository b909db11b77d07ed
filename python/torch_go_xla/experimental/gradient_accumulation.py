"""Gradients over several batches as one loop: torch_xla's ``torch_xla.experimental.gradient_accumulation``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .scan import scan

__all__ = ["gradient_accumulation"]


def gradient_accumulation(
    train_step: Callable[..., Any],
    iterable_tensors: Sequence[torch.Tensor],
    model: torch.nn.Module,
    *carried_tensors: torch.Tensor,
) -> Any:
    """Call a step for each row of tensors, and add the gradients of its mean loss to those of a model.

    Args:
        train_step: takes a row of each of ``iterable_tensors`` and the carried tensors; returns the loss, a tensor of
            one element, or a tuple of the loss and the carried tensors' next values. It does not call backward.
        iterable_tensors: at least one, all with the same size of dimension 0, the number of steps n.
        model: whose parameters' gradients are added to, each loss counting for 1/n.
        carried_tensors: given from step to step.

    Returns:
        The sum of the losses divided by n; with carried tensors a tuple of it and their last values.

    Raises:
        ValueError: no iterable tensor, an empty one, or different lengths.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.experimental.gradient_accumulation import gradient_accumulation
        >>> model = torch.nn.Linear(4, 1, device="xla")
        >>> batches = torch.randn(3, 8, 4, device="xla")
        >>> loss = gradient_accumulation(lambda x: model(x).square().mean(), (batches,), model)
        >>> loss.shape, model.weight.grad.shape
        (torch.Size([]), torch.Size([1, 4]))
    """
    if not iterable_tensors:
        raise ValueError("iterable_tensors cannot be empty")
    for i, x in enumerate(iterable_tensors):
        if not isinstance(x, torch.Tensor):
            raise ValueError(f"Element {i} of iterable_tensors is not a tensor")
        if x.numel() == 0:
            raise ValueError(f"Element {i} of iterable_tensors is empty")
        if len(x) != len(iterable_tensors[0]):
            raise ValueError(
                f"Element {i} of iterable_tensors has {len(x)} rows, the first {len(iterable_tensors[0])}: "
                "the first dimension is that of the steps"
            )
    steps = len(iterable_tensors[0])
    parameters = [p for p in model.parameters() if p.requires_grad]

    def step(carry: Any, rows: Any) -> Any:
        loss_sum, gradients, carried = carry
        with torch.enable_grad():
            result = train_step(*rows, *carried)
            loss, *following = result if isinstance(result, tuple) else (result,)
            if len(following) != len(carried):
                raise ValueError(f"train_step returns {len(following)} carried tensors, it takes {len(carried)}")
            loss = loss / steps
            found = torch.autograd.grad(loss, parameters, allow_unused=True)
        added = [old if new is None else old + new for old, new in zip(gradients, found, strict=True)]
        return (loss_sum + loss.detach(), added, [x.detach() for x in following]), None

    with torch.no_grad():
        zero = torch.zeros((), device=iterable_tensors[0].device)
        init = (zero, [torch.zeros_like(p) for p in parameters], list(carried_tensors))
        (loss, gradients, carried), _ = scan(step, init, list(iterable_tensors))
        for p, g in zip(parameters, gradients, strict=True):
            p.grad = g if p.grad is None else p.grad + g
    return (loss, *carried) if carried_tensors else loss
