"""What is known beforehand of the comparison with the CPU."""

from __future__ import annotations

import torch

# Ops whose values are random, or not defined: types and shapes are compared.
RANDOM: dict[str, str] = {}

# Half types: the CPU rounds between the steps of an op, where a compiled program keeps float32.
_HALF = {torch.bfloat16: (1.6e-2, 8e-3), torch.float16: (2e-3, 1e-3)}


def tolerance(op: str, dtype: torch.dtype) -> tuple[float, float]:
    """Return the relative and absolute tolerance that an op needs beyond torch's own."""
    return _HALF.get(dtype, (0.0, 0.0))
