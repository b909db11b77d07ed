"""scaled_dot_product_attention: the choice that torch makes for the CPU, and what is built on it."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

import torch_go_xla
from torch_go_xla import _XLAC

KERNEL = "_scaled_dot_product_flash_attention_for_cpu"


def heads(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return [batch, heads, sequence, size] as models have it: the sequence before the heads in memory."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(dtype)


Q, K, V = heads(2, 4, 100, 8), heads(2, 4, 130, 8, seed=1), heads(2, 4, 130, 8, seed=2)
SEEN = torch.rand(100, 130, generator=torch.Generator().manual_seed(3)) > 0.3
CHOICES: dict[str, tuple[tuple[Tensor, ...], dict[str, Any]]] = {
    "plain": ((Q, K, V), {}),
    "causal": ((Q, K, V), {"is_causal": True}),
    "scale": ((Q, K, V), {"scale": 0.2}),
    "seen": ((Q, K, V, SEEN), {}),
    "added": ((Q, K, V, heads(2, 1, 100, 130)), {}),
    "of keys": ((Q, K, V, heads(2, 1, 1, 130)), {}),
    "nothing seen": ((Q, K, V, torch.zeros(100, 130, dtype=torch.bool)), {}),
    "mask of 3": ((Q, K, V, heads(4, 100, 130)), {}),
    "groups": ((Q, K[:, :2], V[:, :2]), {"enable_gqa": True}),
    "one head of keys": ((Q, K[:, :1], V[:, :1]), {"enable_gqa": True, "is_causal": True}),
    "3 dimensions": ((Q[0], K[0], V[0]), {"is_causal": True}),
    "5 dimensions": ((Q[None], K[None], V[None]), {}),
    "wider values": ((Q, K, torch.cat((V, V), -1)), {}),
    "double": ((Q.double(), K.double(), V.double()), {}),
    "bfloat16": ((Q.bfloat16(), K.bfloat16(), V.bfloat16()), {"is_causal": True}),
    "float16 with a wide mask": ((Q.half(), K.half(), V.half(), heads(2, 1, 1, 130)), {}),
    "no queries": ((Q[:, :, :0], K, V), {}),
}


def attend(args: tuple[Tensor, ...], options: dict[str, Any], device: str) -> tuple[list[Tensor], str]:
    """Return the result and the gradients of query, key and value, and the name of the result's autograd node."""
    q, k, v, *mask = (x.to(device) for x in args)
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    out = F.scaled_dot_product_attention(*leaves, *mask, **options)
    weight = torch.arange(out.size(-1), dtype=out.dtype, device=device)
    grads = torch.autograd.grad((out * weight).sum(), leaves)
    assert out.grad_fn is not None
    return [out.detach(), *grads], out.grad_fn.name()


@pytest.mark.parametrize("name", CHOICES)
def test_the_choice_is_that_of_the_cpu(name: str) -> None:
    args, options = CHOICES[name]
    want, node = attend(args, options, "cpu")
    got, ours = attend(args, options, "xla")
    assert ours == node or "FlashAttention" not in node + ours
    flash = name not in ("mask of 3", "5 dimensions", "wider values", "no queries")
    assert ("FlashAttention" in node) == (flash and args[0].dim() == 4)
    calls = re.findall(r'op = "([^"]+)"', _XLAC._get_xla_tensors_hlo(got)) if want[0].numel() else []
    assert calls == ([KERNEL, f"{KERNEL}_backward"] if flash else [])
    tolerance = {torch.float64: 1e-8, torch.bfloat16: 4e-2, torch.float16: 4e-3}.get(args[0].dtype, 1e-4)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(
            a.cpu(), b, rtol=tolerance, atol=tolerance * max(1.0, float(b.abs().max())) if b.numel() else 0
        )


def test_a_mask_with_a_gradient_and_dropout_are_composed() -> None:
    mask = torch.zeros(100, 130, device="xla", requires_grad=True)
    q, k, v = (x.to("xla") for x in (Q, K, V))
    F.scaled_dot_product_attention(q, k, v, mask).sum().backward()
    assert mask.grad is not None
    torch.testing.assert_close(mask.grad.cpu().sum(), torch.tensor(0.0), atol=1e-3, rtol=0)
    dropped = F.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
    assert KERNEL not in _XLAC._get_xla_tensors_hlo([dropped])


@pytest.mark.parametrize("device", ["cpu", "xla"])
def test_kernels_that_are_asked_for(device: str) -> None:
    q, k, v = (x.to(device).requires_grad_() for x in (Q, K, V))
    mask = torch.zeros(4, 100, 130, device=device)

    def node(*given: Tensor) -> str:
        made = F.scaled_dot_product_attention(*given).grad_fn
        assert made is not None
        return made.name()

    with sdpa_kernel([SDPBackend.MATH]):
        assert "FlashAttention" not in node(q, k, v)
        grad = torch.autograd.grad(F.scaled_dot_product_attention(q, k, v).sum(), q, create_graph=True)[0]
        assert grad.requires_grad  # the composition has a second derivative
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION]):
        assert "FlashAttention" in node(q, k, v)
        with pytest.raises(RuntimeError, match="No available kernel"):
            node(q, k, v, mask)
    with (
        sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION]),
        pytest.raises(RuntimeError, match="No viable backend for scaled_dot_product_attention"),
    ):
        node(q, k, v)


@pytest.mark.parametrize(
    ("shapes", "options"),
    [
        (((2, 4, 9, 8), (2, 4, 7, 8), (2, 4, 6, 8)), {}),
        (((2, 4, 9, 8), (1, 4, 7, 8), (1, 4, 7, 8)), {}),
        (((2, 3, 9, 8), (2, 2, 7, 8), (2, 2, 7, 8)), {}),
        (((2, 1, 9, 8), (2, 2, 7, 8), (2, 2, 7, 8)), {}),
        (((2, 4, 9, 8), (2, 4, 0, 8), (2, 4, 0, 8)), {}),
        (((2, 4, 9, 8), (2, 4, 7, 4), (2, 4, 7, 4)), {}),
        (((4, 9, 8), (4, 7, 8), (4, 7, 8)), {}),
        (((2, 4, 9, 8), (2, 4, 7, 8), (2, 4, 7, 8)), {"dropout_p": 0.5}),
        (((2, 4, 9, 8), (2, 4, 7, 8), (2, 4, 7, 8)), {"attn_mask": (8, 7)}),
        (((2, 4, 9, 8), (2, 4, 7, 8), (2, 4, 7, 8)), {"attn_mask": (4, 9, 7)}),
    ],
)
def test_operands_that_do_not_fit(shapes: tuple[tuple[int, ...], ...], options: dict[str, Any]) -> None:
    """Torch's own kernel reads beyond the operands, or divides by zero, with most of these."""
    q, k, v = (torch.zeros(s, device="xla") for s in shapes)
    given = (
        {**options, "attn_mask": torch.zeros(options["attn_mask"], device="xla")} if "attn_mask" in options else options
    )
    with pytest.raises(RuntimeError, match="scaled_dot_product_attention_flash_attention: "):
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, **given)


def both(module: nn.Module, x: Tensor, **options: Any) -> None:
    """Compare result and gradients of a module on the device with those on the CPU."""
    results = []
    for device in ("cpu", "xla"):
        module = copy.deepcopy(module).to(device)
        given = {k: v.to(device) if isinstance(v, Tensor) else v for k, v in options.items()}
        out = module(x.to(device), **given)
        if module.training:
            out.square().sum().backward()
        grads = [p.grad for p in module.parameters() if p.grad is not None]
        results.append([out.detach().cpu(), *(g.cpu() for g in grads)])
    for want, got in zip(*results, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-3 * max(1.0, float(want.abs().max())))


class Attended(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, x: Tensor, **options: Any) -> Tensor:
        return self.inner(x, x, x, need_weights=False, **options)[0]


@pytest.mark.parametrize("training", [True, False])
def test_modules(training: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 64, 32)
    causal = nn.Transformer.generate_square_subsequent_mask(64)
    padding = torch.arange(64) >= torch.tensor([[64], [40]])
    both(Attended().train(training), x)
    both(Attended().train(training), x, attn_mask=causal, is_causal=True)
    both(Attended().train(training), x, key_padding_mask=padding)
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    both(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).train(training), x)


def test_replays() -> None:
    """A recorded step, with its gradients, gives what the call gave; the second replay has other operands."""

    def step(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        out = F.scaled_dot_product_attention(*leaves, is_causal=True)
        return out.detach(), *torch.autograd.grad(out.square().sum(), leaves)

    compiled = torch_go_xla.compile(step)
    for seed in range(3):
        args = [heads(2, 4, 100, 8, seed=seed + i) for i in range(3)]
        for got, want in zip(compiled(*(x.to("xla") for x in args)), step(*args), strict=True):
            torch.testing.assert_close(got.cpu(), want, rtol=1e-3, atol=1e-3)


@pytest.mark.slow
def test_torch_compile() -> None:
    torch.manual_seed(0)
    module = Attended()
    x = torch.randn(2, 64, 32)
    want = torch.autograd.grad(module(x).square().sum(), list(module.parameters()))
    module = module.to("xla")
    compiled = torch.compile(module, backend="openxla")
    got = torch.autograd.grad(compiled(x.to("xla")).square().sum(), list(module.parameters()))
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-3, atol=1e-2)
