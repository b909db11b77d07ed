"""Attention: torch's choice of a kernel, and the fused inference of transformer layers, composed of other ops."""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

from ..core import is_xla, native
from ..kernels import DIFFERENTIABLE, KERNELS, add

# Kinds of masks: [target, source], [batch, source], [batch, heads, target, source]; True is left out.
_PADDING = 1


def _hidden(scores: Tensor, mask: Tensor, mask_type: int | None) -> Tensor:
    if mask_type == _PADDING:
        mask = mask[:, None, None, :]
    return scores.masked_fill(mask.to(torch.bool), float("-inf"))


def _mask_fits(mask: Tensor, query: Tensor, key: Tensor) -> bool:
    wanted = (*query.shape[:3], key.size(2))[4 - mask.dim() :]
    return mask.dim() in (2, 4) and all(n in (1, m) for n, m in zip(mask.shape, wanted, strict=True))


def _flash(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float, grouped: bool) -> bool:
    """Say whether torch would take its flash kernel on the CPU; see its sdp_utils_cpp.cpp."""
    heads = key.size(1) if key.dim() == 4 else 0
    return (
        torch._C._get_flash_sdp_enabled()
        and query.dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16)
        and query.dim() == 4
        and key.shape == value.shape
        and key.dim() == 4
        and (query.size(0), query.size(3)) == (key.size(0), key.size(3))
        and (query.size(1) == heads or (grouped and heads > 0 and query.size(1) % heads == 0))
        and min(query.numel(), key.numel()) > 0
        and dropout == 0
        and (mask is None or (not mask.requires_grad and _mask_fits(mask, query, key)))
    )


def _plain(tensors: Iterable[Tensor]) -> bool:
    """Say whether the tensors are the device's, of no subclass but torch's tracers' own, under no transform."""
    kinds = (Tensor, torch.nn.Parameter, FakeTensor, FunctionalTensor)
    return all(type(x) in kinds and is_xla(x) for x in tensors) and torch._C._functorch.peek_interpreter_stack() is None


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Attend by the row of torch's flash kernel where torch does so on the CPU, and programs may call it."""
    composed = torch.ops.aten.scaled_dot_product_attention.default
    given = (query, key, value) if attn_mask is None else (query, key, value, attn_mask)
    # Wrong operands are left to torch, for its errors.
    wrong = (is_causal and attn_mask is not None) or not query.dtype == key.dtype == value.dtype
    if not wrong and _plain(given) and native().torch_kernels():
        alone = query.dim() == key.dim() == value.dim() == 3
        q, k, v, *masks = (x.unsqueeze(0) if alone and x.dim() == 3 else x for x in given)
        mask = masks[0] if masks else None
        if _flash(q, k, v, mask, dropout_p, enable_gqa):
            if mask is not None and mask.dtype == torch.bool:
                mask = torch.where(mask, 0.0, float("-inf")).to(q.dtype)
            out: Tensor = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
                q, k, v, 0.0, is_causal, attn_mask=mask, scale=scale
            )[0]
            return out.squeeze(0) if alone else out
        if not torch._C._get_math_sdp_enabled():
            raise RuntimeError(
                "No available kernel. Aborting execution."
                if torch._C._get_flash_sdp_enabled()
                else "No viable backend for scaled_dot_product_attention was found. This is likely due to turning off "
                "both the math kernel and the fused kernels."
            )
    result: Tensor = composed.decompose(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )
    return result


def multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Tensor, Tensor | None]:
    """_native_multi_head_attention: the result and, if wanted, the weights."""
    parts = zip((query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3), strict=True)
    q, k, v = (F.linear(x, w, b).view(*x.shape[:2], num_head, -1).transpose(1, 2) for x, w, b in parts)
    if mask is None and not need_weights:
        return F.linear(scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2), proj_weight, proj_bias), None
    scores = q @ k.transpose(-1, -2) * (embed_dim // num_head) ** -0.5
    if mask is not None:
        scores = _hidden(scores, mask, mask_type)
    weights = scores.softmax(-1)
    result = F.linear((weights @ v).transpose(1, 2).flatten(2), proj_weight, proj_bias)
    if not need_weights:
        return result, None
    return result, weights.mean(1) if average_attn_weights else weights


def encoder_layer(
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Tensor:
    """_transformer_encoder_layer_fwd."""

    def attend(x: Tensor) -> Tensor:
        projections = qkv_weight, qkv_bias, proj_weight, proj_bias
        return multi_head_attention(x, x, x, embed_dim, num_heads, *projections, mask, False, True, mask_type)[0]

    def feed(x: Tensor) -> Tensor:
        x = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(x) if use_gelu else F.relu(x), ffn_weight_2, ffn_bias_2)

    def norm1(x: Tensor) -> Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def norm2(x: Tensor) -> Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    if norm_first:
        x = src + attend(norm1(src))
        return x + feed(norm2(x))
    x = norm1(src + attend(src))
    return norm2(x + feed(x))


add(DIFFERENTIABLE, {"scaled_dot_product_attention": scaled_dot_product_attention})
add(
    KERNELS,
    {
        "_native_multi_head_attention": multi_head_attention,
        "_transformer_encoder_layer_fwd": encoder_layer,
    },
)
