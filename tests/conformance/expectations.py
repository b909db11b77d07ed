"""What is known beforehand of the comparison with the CPU."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from typing import Any

import torch

# Ops whose values are random, or not defined: types and shapes are compared. The reason is the value.
_DRAWN = "draws random numbers, from a generator of the device"
_UNDEFINED = "the values are not initialized"
RANDOM: dict[str, str] = dict.fromkeys(
    """
    bernoulli cauchy exponential geometric log_normal multinomial normal normal_in_place normal_number_mean rand_like
    randint randint_like randn randn_like uniform nn_functional_alpha_dropout nn_functional_dropout
    nn_functional_dropout2d nn_functional_dropout3d nn_functional_feature_alpha_dropout_with_train
    svd_lowrank
    """.split(),
    _DRAWN,
) | dict.fromkeys("empty empty_like empty_permuted empty_strided new_empty new_empty_strided".split(), _UNDEFINED)

# Ops that are random with some samples.
_RANDOM_IF: dict[str, Callable[[Any], bool]] = {
    "nn_functional_scaled_dot_product_attention": lambda s: s.kwargs.get("dropout_p", 0) > 0,
    "nn_functional_multi_head_attention_forward": lambda s: s.kwargs["training"],
    "nn_functional_rrelu": lambda s: s.kwargs.get("training", False),
    "nn_functional_fractional_max_pool2d": lambda s: "_random_samples" not in s.kwargs,
    "nn_functional_fractional_max_pool3d": lambda s: "_random_samples" not in s.kwargs,
}


def is_random(op: str, sample: Any) -> bool:
    """Say whether the values of a sample's results are left out of the comparison."""
    return op in RANDOM or (op in _RANDOM_IF and _RANDOM_IF[op](sample))


# Half types: up to three roundings, between the steps of a composition, of terms of the size of one.
_HALF = {torch.bfloat16: (1.6e-2, 8e-3), torch.float16: (3e-3, 1e-3)}

_ORDER = "sums in another order than the CPU, of terms that cancel"
_ILL = "ill-conditioned: the CPU's own float32 result is as far from the exact one"
_POLE = "cancels near a pole, where a fused multiply and add rounds once and not twice"
# Ops by pattern: relative and absolute tolerance, of the single types and of the double ones, and why.
_WIDER: list[tuple[str, tuple[float, float], tuple[float, float], str]] = [
    ("matrix_exp", (5e-3, 1e-5), (1e-7, 1e-7), _ILL),
    ("nn_functional_multi_head_attention_forward", (1e-4, 1e-4), (1e-7, 1e-7), _ORDER),
    ("nn_functional_conv_transpose3d", (2e-4, 2e-4), (1e-7, 1e-7), _ORDER),
    ("torch_ops_aten__scaled_dot_product_flash_attention_for_cpu", (1e-4, 5e-5), (1e-7, 1e-7), _ORDER),
    ("cov", (1e-5, 2e-5), (1e-7, 1e-7), _ORDER),
    ("_foreach_mm", (1e-5, 5e-5), (1e-7, 1e-7), _ORDER),
    ("fft_*", (1e-5, 5e-5), (1e-7, 1e-7), _ORDER),
    ("nn_functional_linear_cross_entropy*", (1e-4, 3e-2), (1e-7, 1e-7), _ORDER),
    ("*pow*", (2e-5, 1e-5), (1e-7, 1e-7), "computed in float64: the CPU's complex64 result is some units off"),
    ("*asin", (1e-4, 1e-4), (1e-7, 1e-7), _POLE),
    ("*acos", (1e-4, 1e-4), (1e-7, 1e-7), _POLE),
    ("*atanh", (1e-4, 3e-3), (1e-7, 1e-7), _POLE),
    ("erfinv", (1e-5, 1e-3), (1e-7, 1e-7), _POLE),
    ("*polygamma*", (1e-5, 1e-5), (1e-7, 1e-7), _POLE),
    ("*grid_sample*", (1e-4, 5e-5), (1e-7, 1e-7), _ORDER),
    (
        "nn_functional_ctc_loss",
        (1e-3, 2e-4),
        (1e-7, 1e-7),
        "logarithms of some hundreds have few digits left",
    ),
    ("linalg_*", (1e-3, 1e-4), (1e-6, 1e-6), _ILL),
]


def tolerance(op: str, dtype: torch.dtype) -> tuple[float, float]:
    """Return the relative and absolute tolerance that an op needs beyond torch's own."""
    rtol, atol = _HALF.get(dtype, (0.0, 0.0))
    for pattern, single, double, _ in _WIDER:
        if fnmatch.fnmatch(op, pattern):
            r, a = double if dtype in (torch.float64, torch.complex128) else single
            rtol, atol = max(rtol, r), max(atol, a)
    return rtol, atol


_CHALF = "xla has no complex numbers of half precision"
_SPARSE = "its samples are sparse tensors, which have no strides"
_TIES = "the order of equal elements is not specified, and the CPU's own is not stable"
_VALUES = "whether the values are good is not known at the call: to look at them would wait for the device"
# What does not pass, by pattern of the op, of the kind and of the type, and why. "some": with some samples only.
_KNOWN: list[tuple[str, str, str, str, str]] = [
    ("sparse_*", "noncontiguous", "*", "all", _SPARSE),
    ("chalf", "*", "*", "all", _CHALF),
    ("complex", "*", "float16", "all", _CHALF),
    ("polar", "*", "float16", "all", _CHALF),
    ("view_as_complex", "*", "float16", "all", _CHALF),
    ("sort", "*", "*", "some", _TIES),
    ("argsort", "*", "*", "some", _TIES),
    ("topk", "*", "*", "some", _TIES),
    ("gather", "errors", "*", "all", _VALUES),
    ("scatter", "errors", "*", "all", _VALUES),
    ("scatter_add", "errors", "*", "all", _VALUES),
    ("multinomial", "errors", "*", "all", _VALUES),
    ("narrow_copy", "errors", "*", "all", "an IndexError as of all ops, where the CPU's kernel fails an assertion"),
    ("kthvalue", "*", "*", "some", _TIES),
    ("mode", "*", "*", "some", _TIES),
    ("resize_", "edge", "*", "some", _UNDEFINED),
    ("matrix_exp", "backward", "*float16", "some", "some of the CPU's own gradients are not finite in half types"),
    ("cov", "backward", "complex64", "some", _ORDER),
    ("logcumsumexp", "backward", "complex64", "some", _ILL),
    ("renorm", "backward", "complex64", "some", "torch looks for a maximum of doubles among singles: the CPU's is NaN"),
    ("_foreach_norm", "backward", "complex64", "some", "equal magnitudes share a gradient: the last bit decides"),
    ("nextafter", "backward", "bfloat16", "some", "XLA:CPU takes numbers below the normal ones for zero"),
    ("nn_functional_linear_cross_entropy_chunked_*", "*", "*float16", "some", "torch accumulates by the device"),
]


def reason(op: str, kind: str, dtype: str) -> str | None:
    """Return why a pair is known not to pass, or not with all samples."""
    return next((why for *where, _, why in _KNOWN if _matches(where, op, kind, dtype)), None)


def never_passes(op: str, kind: str, dtype: str) -> bool:
    """Say whether a pair is known to fail with any sample."""
    return any(how == "all" and _matches(where, op, kind, dtype) for *where, how, _ in _KNOWN)


def _matches(where: list[str], op: str, kind: str, dtype: str) -> bool:
    return all(fnmatch.fnmatch(x, pattern) for x, pattern in zip((op, kind, dtype), where, strict=True))
