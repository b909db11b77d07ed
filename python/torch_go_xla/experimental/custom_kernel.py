"""Attention by the names of torch_xla's ``torch_xla.experimental.custom_kernel``.

There they are Pallas kernels of a TPU; here they are torch's ``scaled_dot_product_attention``, which each device
lowers as is best for it.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from .. import _absent
from ..distributed import spmd as xs

__all__ = ["DEFAULT_MASK_VALUE", "flash_attention"]

# The score of a pair that attention leaves out: finite, so that a row of such scores has no NaN.
DEFAULT_MASK_VALUE = -0.7 * float(torch.finfo(torch.float32).max)


def flash_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    q_segment_ids: torch.Tensor | None = None,
    kv_segment_ids: torch.Tensor | None = None,
    sm_scale: float = 1.0,
    *,
    ab: torch.Tensor | None = None,
    partition_spec: Any = None,
    mesh: Any = None,
) -> torch.Tensor:
    """Return ``softmax(sm_scale * q @ k.T + ab) @ v``, differentiable.

    Args:
        q: (batch, heads, length of q, size).
        k: (batch, heads, length of kv, size).
        v: as ``k``.
        causal: row i of q sees the rows of k up to i only.
        q_segment_ids: (batch, length of q), integers; with ``kv_segment_ids``, rows see those of their segment only.
        kv_segment_ids: (batch, length of kv).
        sm_scale: factor of the products.
        ab: (batch, heads, length of q, length of kv), added to the scaled products.
        partition_spec: how the operands and the result lie on ``mesh``, under SPMD.
        mesh: a Mesh; by default the global one.

    Returns:
        (batch, heads, length of q, size).

    Raises:
        ValueError: one of the segment ids without the other.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.experimental.custom_kernel import flash_attention
        >>> q, k, v = torch.randn(3, 2, 4, 16, 8, device="xla").unbind()
        >>> flash_attention(q, k, v, causal=True, sm_scale=8**-0.5).shape
        torch.Size([2, 4, 16, 8])
    """
    if (q_segment_ids is None) != (kv_segment_ids is None):
        raise ValueError("Both q_segment_ids and kv_segment_ids should be provided.")
    if partition_spec is not None:
        mesh = mesh or xs.get_global_mesh()
        for x in (q, k, v):
            xs.mark_sharding(x, mesh, partition_spec)
    mask = ab
    if q_segment_ids is not None and kv_segment_ids is not None:
        same = q_segment_ids[:, None, :, None] == kv_segment_ids[:, None, None, :]
        mask = _hidden(same, q.dtype) if mask is None else mask + _hidden(same, mask.dtype)
    if causal and mask is not None:  # torch takes one of the two
        seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril()
        mask, causal = mask + _hidden(seen, mask.dtype), False
    result = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, scale=sm_scale)
    if partition_spec is not None:
        xs.mark_sharding(result, mesh, partition_spec)
    return result


def _hidden(seen: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return 0 for what is seen, and else a number so low that its weight is 0, where there is something else."""
    low = max(DEFAULT_MASK_VALUE, torch.finfo(dtype).min / 2)
    return torch.zeros_like(seen, dtype=dtype).masked_fill(~seen, low)


__getattr__ = _absent.attributes(__name__)
