"""Hooks and functions of a user's own see and change gradients as on the CPU."""

from __future__ import annotations

import pytest
import torch
from torch.utils.checkpoint import checkpoint as torch_checkpoint

from torch_go_xla import _XLAC
from torch_go_xla.utils.checkpoint import checkpoint


class Cube(torch.autograd.Function):
    """x * x * x, with a gradient by hand that notes whether it was asked for."""

    asked: list[str] = []

    @staticmethod
    def forward(ctx, x: torch.Tensor, factor: float) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.factor = factor
        return factor * x * x * x

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        (x,) = ctx.saved_tensors
        Cube.asked.append(str(gradient.device))
        return gradient * 3 * ctx.factor * x * x, None


def test_a_function_of_ones_own() -> None:
    gradients = {}
    for device in ("cpu", "xla"):
        x = torch.tensor([1.0, -2.0, 3.0], device=device, requires_grad=True)
        (Cube.apply(x, 2.0) * torch.arange(3.0, device=device)).sum().backward()
        assert x.grad is not None and x.grad.device == x.device
        gradients[device] = x.grad.tolist()
    assert gradients["xla"] == gradients["cpu"] == [0, 24, 108]
    assert Cube.asked == ["cpu", "xla:0"]


def test_its_gradient_of_a_gradient() -> None:
    x = torch.tensor([2.0], device="xla", requires_grad=True)
    (first,) = torch.autograd.grad(Cube.apply(x, 1.0), x, create_graph=True)
    (second,) = torch.autograd.grad(first, x)
    assert (first.item(), second.item()) == (12, 12)


@pytest.mark.parametrize("device", ["cpu", "xla"])
def test_hooks(device: str) -> None:
    seen: list[str] = []
    layer = torch.nn.Linear(2, 2, bias=False).to(device)
    with torch.no_grad():
        layer.weight.copy_(torch.eye(2))
    layer.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    layer.register_forward_hook(lambda m, args, out: out * 2)
    layer.register_full_backward_hook(lambda m, grads, outs: seen.append("module"))

    def tenfold(p: torch.Tensor) -> None:
        assert p.grad is not None
        p.grad.mul_(10)

    layer.weight.register_post_accumulate_grad_hook(tenfold)
    x = torch.tensor([[1.0, 2.0]], device=device, requires_grad=True)
    handle = x.register_hook(lambda gradient: gradient + 5)
    y = layer(x)
    assert y.tolist() == [[4, 6]]
    y.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [[7, 7]]
    assert layer.weight.grad is not None and layer.weight.grad.tolist() == [[40, 60], [40, 60]]
    assert seen == ["module"]
    handle.remove()
    x.grad = None
    layer(x).sum().backward()
    assert x.grad.tolist() == [[2, 2]]


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpoint(use_reentrant):
    """What the backward pass computes again starts behind a barrier."""
    grads = []
    for device, apply in (("cpu", torch_checkpoint), ("xla", checkpoint)):
        torch.manual_seed(0)
        block = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 4)).to(device)
        x = torch.randn(3, 4).to(device).requires_grad_()
        apply(block, x, use_reentrant=use_reentrant).square().sum().backward()
        grads.append([x.grad, *(p.grad for p in block.parameters())])
    assert "optimization_barrier" in _XLAC._get_xla_tensors_hlo(grads[1])
    for theirs, ours in zip(*grads, strict=True):
        torch.testing.assert_close(ours.cpu(), theirs)
