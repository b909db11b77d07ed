"""Autocast for the device, with the op lists of CUDA's (ATen/autocast_mode.h).

Torch registers no autocast kernels for PrivateUse1. Each op of the lists gets one that casts its
arguments and calls the op again without autocast. Casts are not cached: within a program the compiler
merges equal ones.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map

from .core import is_xla
from .device import torch_version
from .fallback import overload, schema_of

_AUTOCAST: Any = torch._C._parse_dispatch_key("AutocastPrivateUse1")
_KEY = torch._C.DispatchKeySet(_AUTOCAST)

LOWER_PRECISION = """
    _convolution.deprecated _convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d.input
    conv_transpose3d.input convolution prelu addmm addmv addr matmul einsum mm mv linalg_vecdot linear addbmm baddbmm
    bmm chain_matmul linalg_multi_dot _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell rnn_tanh_cell
    rnn_relu_cell _scaled_dot_product_flash_attention scaled_dot_product_attention
""".split()

FLOAT32 = """
    acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Tensor_Scalar pow.Tensor_Tensor
    pow.Scalar softplus layer_norm native_layer_norm rms_norm group_norm frobenius_norm.dim nuclear_norm
    nuclear_norm.dim cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss
    kl_div l1_loss smooth_l1_loss huber_loss mse_loss margin_ranking_loss multilabel_margin_loss soft_margin_loss
    triplet_margin_loss multi_margin_loss binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp
    upsample_nearest1d _upsample_nearest_exact1d upsample_nearest2d _upsample_nearest_exact2d upsample_nearest3d
    _upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d _upsample_bilinear2d_aa upsample_trilinear3d
    upsample_bicubic2d _upsample_bicubic2d_aa
""".split()
FLOAT32 += ["linalg_matrix_sqrth"] * (torch_version() >= (2, 14))

# Run in float32 by their dtype argument, unless the caller gives one.
FLOAT32_DTYPE = """
    prod prod.dim_int softmax.int log_softmax.int cumprod cumsum linalg_vector_norm linalg_matrix_norm
    linalg_matrix_norm.str_ord sum sum.dim_IntList
""".split()

# The same, where the overload with a dtype is another one.
FLOAT32_OTHER_OVERLOAD = {"norm.Scalar": "norm.ScalarOpt_dtype", "norm.ScalarOpt_dim": "norm.ScalarOpt_dim_dtype"}

WIDEST = "addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add".split()

REFUSED = "binary_cross_entropy"


def _eligible(x: Any) -> bool:
    return is_xla(x) and x.is_floating_point() and x.dtype != torch.float64


def _cast(tree: Any, dtype: torch.dtype) -> Any:
    return tree_map(lambda x: x.to(dtype) if _eligible(x) else x, tree)


def _without_autocast() -> Any:
    return torch._C._ExcludeDispatchKeyGuard(_KEY)


def _lower(op: Any, *args: Any, **kwargs: Any) -> Any:
    dtype = torch.get_autocast_dtype("xla")
    with _without_autocast():
        return op(*_cast(args, dtype), **_cast(kwargs, dtype))


def _float32(op: Any, *args: Any, **kwargs: Any) -> Any:
    with _without_autocast():
        return op(*_cast(args, torch.float32), **_cast(kwargs, torch.float32))


def _float32_dtype(op: Any, position: int, keyword: bool, *args: Any, **kwargs: Any) -> Any:
    with _without_autocast():
        given = kwargs.get("dtype") is not None or (not keyword and len(args) > position and args[position] is not None)
        if given or not _eligible(args[0]):
            return op(*args, **kwargs)
        if keyword or len(args) <= position:
            return op(*args, **kwargs | {"dtype": torch.float32})
        return op(*args[:position], torch.float32, *args[position + 1 :], **kwargs)


def _float32_other(op: Any, with_dtype: Any, *args: Any, **kwargs: Any) -> Any:
    with _without_autocast():
        if not _eligible(args[0]):
            return op(*args, **kwargs)
        return with_dtype(*args, **kwargs, dtype=torch.float32)


def _widest(op: Any, *args: Any, **kwargs: Any) -> Any:
    found: set[torch.dtype] = set()
    tree_map(lambda x: found.add(x.dtype) if _eligible(x) else None, (args, kwargs))
    dtype = torch.float32 if torch.float32 in found else torch.get_autocast_dtype("xla")
    with _without_autocast():
        return op(*_cast(args, dtype), **_cast(kwargs, dtype))


def _refuse(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError(
        "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
        "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
        "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
        "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
        "safe to autocast."
    )


def _dtype_kernel(key: str) -> Callable[..., Any]:
    op = overload(key)
    position = next(i for i, a in enumerate(schema_of(op).args) if a.name == "dtype")
    keyword = schema_of(op).args[position].keyword_only
    return functools.partial(_float32_dtype, op, position, keyword)


def kernels() -> dict[str, Callable[..., Any]]:
    """Return the kernels by overload."""
    table: dict[str, Callable[..., Any]] = {REFUSED: _refuse}
    for key in LOWER_PRECISION:
        table[key] = functools.partial(_lower, overload(key))
    for key in FLOAT32:
        table[key] = functools.partial(_float32, overload(key))
    for key in FLOAT32_DTYPE:
        table[key] = _dtype_kernel(key)
    for key, other in FLOAT32_OTHER_OVERLOAD.items():
        table[key] = functools.partial(_float32_other, overload(key), overload(other))
    for key in WIDEST:
        table[key] = functools.partial(_widest, overload(key))
    return table
