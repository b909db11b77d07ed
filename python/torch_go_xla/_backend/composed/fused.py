"""Fused optimizer steps, which torch calls with ``fused=True``, and the ops of its GradScaler, made of foreach ops.

As in torch's own kernels, the caller has counted the steps, and ``grad_scale`` divides the gradients in place. With a
``found_inf`` of 1 nothing else changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..kernels import KERNELS, add

Tensors = list[Tensor]
Kernel = Callable[..., None]


def _unless(found_inf: Tensor | None, *changed: Tensors) -> Callable[[], None]:
    """Return a function that undoes what has changed since if found_inf is 1."""
    if found_inf is None:
        return lambda: None
    before = [[t.clone() for t in tensors] for tensors in changed]

    def undo() -> None:
        overflow = found_inf.bool()
        for tensors, old in zip(changed, before, strict=True):
            for now, then in zip(tensors, old, strict=True):
                now.copy_(torch.where(overflow, then, now))

    return undo


def _gradients(grads: Tensors, scale: Tensor | None, maximize: bool) -> Tensors:
    if scale is not None:
        torch._foreach_div_(grads, scale)
    return list(torch._foreach_neg(grads)) if maximize else grads


def _decayed(grads: Tensors, params: Tensors, weight_decay: float) -> Tensors:
    return list(torch._foreach_add(grads, params, alpha=weight_decay)) if weight_decay else grads


def _corrections(beta: float, steps: Tensor) -> Tensor:
    """Return 1 - beta^step for each step of a vector, in float64 as torch's kernels do."""
    return 1 - beta ** steps.to(torch.float64)


def _descend(params: Tensors, directions: Tensors, denominators: Tensors, lr: Any) -> None:
    """Subtract lr * direction / denominator from each parameter."""
    if isinstance(lr, Tensor):
        torch._foreach_sub_(params, torch._foreach_mul(torch._foreach_div(directions, denominators), lr))
    else:
        torch._foreach_addcdiv_(params, directions, denominators, -lr)


def _adam(decoupled: bool) -> Kernel:
    """Return the kernel of Adam, of AdamW if the weight decay is decoupled from the gradient."""

    def kernel(
        params: Tensors,
        grads: Tensors,
        exp_avgs: Tensors,
        exp_avg_sqs: Tensors,
        max_exp_avg_sqs: Tensors,
        state_steps: Tensors,
        *,
        lr: Any,
        beta1: float,
        beta2: float,
        weight_decay: float,
        eps: float,
        amsgrad: bool,
        maximize: bool,
        grad_scale: Tensor | None = None,
        found_inf: Tensor | None = None,
    ) -> None:
        undo = _unless(found_inf, params, exp_avgs, exp_avg_sqs, max_exp_avg_sqs)
        grads = _gradients(grads, grad_scale, maximize)
        if decoupled and weight_decay:
            torch._foreach_mul_(params, 1 - lr * weight_decay)
        else:
            grads = _decayed(grads, params, weight_decay)
        torch._foreach_lerp_(exp_avgs, grads, 1 - beta1)
        torch._foreach_mul_(exp_avg_sqs, beta2)
        torch._foreach_addcmul_(exp_avg_sqs, grads, grads, 1 - beta2)
        second = exp_avg_sqs
        if amsgrad:
            torch._foreach_maximum_(max_exp_avg_sqs, exp_avg_sqs)
            second = max_exp_avg_sqs
        denominators = list(torch._foreach_sqrt(second))
        steps = torch.stack(state_steps)  # one record for all parameters, of what depends only on the step
        torch._foreach_div_(denominators, _corrections(beta2, steps).sqrt().unbind())
        torch._foreach_add_(denominators, eps)
        torch._foreach_mul_(denominators, _corrections(beta1, steps).unbind())
        _descend(params, exp_avgs, denominators, lr)
        undo()

    return kernel


def _sgd(
    params: Tensors,
    grads: Tensors,
    momentum_buffer_list: Tensors,
    *,
    weight_decay: float,
    momentum: float,
    lr: Any,
    dampening: float,
    nesterov: bool,
    maximize: bool,
    is_first_step: bool,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> None:
    undo = _unless(found_inf, params, momentum_buffer_list)
    grads = _decayed(_gradients(grads, grad_scale, maximize), params, weight_decay)
    if momentum:
        if is_first_step:
            torch._foreach_copy_(momentum_buffer_list, grads)
        else:
            torch._foreach_mul_(momentum_buffer_list, momentum)
            torch._foreach_add_(momentum_buffer_list, grads, alpha=1 - dampening)
        if nesterov:
            grads = list(torch._foreach_add(grads, momentum_buffer_list, alpha=momentum))
        else:
            grads = momentum_buffer_list
    torch._foreach_sub_(params, torch._foreach_mul(grads, lr))
    undo()


def _adagrad(
    params: Tensors,
    grads: Tensors,
    state_sums: Tensors,
    state_steps: Tensors,
    *,
    lr: Any,
    lr_decay: float,
    weight_decay: float,
    eps: float,
    maximize: bool,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> None:
    undo = _unless(found_inf, params, state_sums)
    grads = _decayed(_gradients(grads, grad_scale, maximize), params, weight_decay)
    torch._foreach_addcmul_(state_sums, grads, grads)
    for i, step in enumerate(state_steps):
        rate = lr / (1 + (step.to(torch.float64) - 1) * lr_decay)
        params[i].sub_(rate * grads[i] / (state_sums[i].sqrt() + eps))
    undo()


def _unscale(grads: Tensors, found_inf: Tensor, inv_scale: Tensor) -> None:
    """Multiply gradients by a number, and make found_inf 1 if one of them is not finite."""
    for g in grads:
        found_inf.copy_(torch.maximum(found_inf, (~g.isfinite()).any().to(found_inf.dtype)))
        g.copy_(g.to(torch.promote_types(g.dtype, inv_scale.dtype)) * inv_scale)


def _update_scale(
    scale: Tensor, growth_tracker: Tensor, found_inf: Tensor, growth: float, backoff: float, growth_interval: int
) -> Tensor:
    """Shrink a scale if found_inf is not 0, grow it after growth_interval times without, if it stays finite."""
    overflow, steps, grown = found_inf != 0, growth_tracker + 1, scale * growth
    due = steps == growth_interval
    scale.copy_(torch.where(overflow, scale * backoff, torch.where(due & grown.isfinite(), grown, scale)))
    growth_tracker.copy_(torch.where(overflow | due, torch.zeros_like(steps), steps))
    return scale


_OPTIMIZERS: dict[str, Kernel] = {
    "_fused_adam_": _adam(decoupled=False),
    "_fused_adamw_": _adam(decoupled=True),
    "_fused_sgd_": _sgd,
    "_fused_adagrad_": _adagrad,
}
_SCALER: dict[str, Callable[..., Any]] = {
    "_amp_foreach_non_finite_check_and_unscale_": _unscale,
    "_amp_update_scale_": _update_scale,
}
add(KERNELS, _OPTIMIZERS | {f"{name}.tensor_lr": kernel for name, kernel in _OPTIMIZERS.items()} | _SCALER)
