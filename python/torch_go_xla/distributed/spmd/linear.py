"""Linear layers whose product keeps the dimensions of the input apart, so that each can be sharded by itself.

``nn.Linear`` joins all dimensions but the last to one, which has no sharding if several of them are sharded.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.amp import custom_bwd, custom_fwd

__all__ = ["EinsumLinear", "XLAPatchedLinear", "apply_xla_patch_to_nn_linear", "xla_patched_nn_linear_forward"]

_tensordot: Any = torch.ops.torch_go_xla.tensordot


class XLAPatchedLinear(torch.autograd.Function):
    """``F.linear`` as one product of the input as it is, forward and backward.

    Example:
        >>> import torch, torch_go_xla.distributed.spmd as xs
        >>> x, weight = torch.ones(5, 3, 4, device="xla"), torch.ones(2, 4, device="xla")
        >>> xs.XLAPatchedLinear.apply(x, weight).shape
        torch.Size([5, 3, 2])
    """

    @staticmethod
    @custom_fwd(device_type="xla")  # type: ignore[untyped-decorator]
    def forward(ctx: Any, input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        if torch.is_autocast_enabled("xla"):
            dtype = torch.get_autocast_dtype("xla")
            input, weight, bias = input.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype)
        ctx.save_for_backward(input, weight)
        product: torch.Tensor = _tensordot(input, weight, [-1], [1])
        return product if bias is None else product + bias

    @staticmethod
    @custom_bwd(device_type="xla")  # type: ignore[untyped-decorator]
    def backward(ctx: Any, grad_output: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        input, weight = ctx.saved_tensors
        batch = list(range(input.dim() - 1))
        needs_input, needs_weight, needs_bias = ctx.needs_input_grad
        return (
            _tensordot(grad_output, weight, [-1], [0]) if needs_input else None,
            _tensordot(grad_output, input, batch, batch) if needs_weight else None,
            (grad_output.sum(batch) if batch else grad_output) if needs_bias else None,
        )


def xla_patched_nn_linear_forward(m: nn.Linear, input: torch.Tensor) -> torch.Tensor:
    """Return what a linear layer makes of an input; a replacement of ``nn.Linear.forward``.

    Args:
        m: the layer.
        input: (..., features that go in), on the device.

    Returns:
        (..., features that come out).

    Example:
        >>> import torch, torch_go_xla.distributed.spmd as xs
        >>> layer = torch.nn.Linear(4, 2, device="xla")
        >>> xs.xla_patched_nn_linear_forward(layer, torch.ones(5, 3, 4, device="xla")).shape
        torch.Size([5, 3, 2])
    """
    return XLAPatchedLinear.apply(input, m.weight, m.bias)  # type: ignore[no-any-return]


class EinsumLinear(nn.Linear):
    """An ``nn.Linear`` that computes by `XLAPatchedLinear`.

    Example:
        >>> import torch, torch_go_xla.distributed.spmd as xs
        >>> xs.EinsumLinear(4, 2, device="xla")(torch.ones(5, 3, 4, device="xla")).shape
        torch.Size([5, 3, 2])
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return xla_patched_nn_linear_forward(self, input)


def apply_xla_patch_to_nn_linear(module: nn.Module) -> nn.Module:
    """Replace the linear layers within a module by `EinsumLinear` layers with the same parameters.

    Args:
        module: the module, which is changed.

    Returns:
        The module.

    Example:
        >>> import torch, torch_go_xla.distributed.spmd as xs
        >>> xs.apply_xla_patch_to_nn_linear(torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ReLU()))
        Sequential(
          (0): EinsumLinear(in_features=4, out_features=2, bias=True)
          (1): ReLU()
        )
    """
    for name, child in module.named_children():
        if type(child) is nn.Linear:
            with torch.device("meta"):
                layer = EinsumLinear(child.in_features, child.out_features, bias=child.bias is not None)
            layer.weight, layer.bias = child.weight, child.bias
            layer.train(child.training)
            setattr(module, name, layer)
        else:
            apply_xla_patch_to_nn_linear(child)
    return module
