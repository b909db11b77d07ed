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


# Half types: one rounding of sums whose terms are of the size of one.
_HALF = {torch.bfloat16: (1.6e-2, 8e-3), torch.float16: (2e-3, 1e-3)}

_ORDER = "sums in another order than the CPU, of terms that cancel"
_ILL = "ill-conditioned: the CPU's own float32 result is as far from the exact one"
# Ops by pattern: relative and absolute tolerance, of the single types and of the double ones, and why.
_WIDER: list[tuple[str, tuple[float, float], tuple[float, float], str]] = [
    ("matrix_exp", (5e-3, 1e-5), (1e-7, 1e-7), _ILL),
    ("nn_functional_multi_head_attention_forward", (1e-4, 1e-4), (1e-7, 1e-7), _ORDER),
    ("nn_functional_conv_transpose3d", (2e-4, 2e-4), (1e-7, 1e-7), _ORDER),
    ("torch_ops_aten__scaled_dot_product_flash_attention_for_cpu", (1e-4, 5e-5), (1e-7, 1e-7), _ORDER),
    ("fft_*", (1e-5, 5e-5), (1e-7, 1e-7), _ORDER),
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
