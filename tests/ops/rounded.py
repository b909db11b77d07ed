"""Compares half types with float32 rounded once.

torch's own kernels round every intermediate sum of some ops; a lowering that does not would differ from them
by more than one rounding, in torch's disfavour.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from cpu_reference import Batch, Tolerance, opinfos
from torch.utils._pytree import tree_leaves, tree_map

HALVES = (torch.bfloat16, torch.float16)


def rounded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make function compute halves on the CPU in float32 and round the result; on xla it stays as it is."""

    def call(*args: Any, **kwargs: Any) -> Any:
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        halves = {x.dtype for x in tensors if x.dtype in HALVES}
        if not halves or tensors[0].device.type != "cpu":
            return function(*args, **kwargs)
        (half,) = halves
        args, kwargs = tree_map(lambda x: _cast(x, half, torch.float32), (args, kwargs))
        return tree_map(lambda x: _cast(x, torch.float32, half), function(*args, **kwargs))

    return call


def _cast(x: Any, old: torch.dtype, new: torch.dtype) -> Any:
    return x.to(new) if isinstance(x, torch.Tensor) and x.dtype == old else x


def check_halves(name: str, *, most: int = 4, tolerance: Tolerance | None = None) -> None:
    """Compare an op's OpInfo samples of the half types, forward."""
    batch = Batch(tolerance)
    for op in opinfos(name):
        for dtype in HALVES:
            if dtype in op.supported_dtypes("cpu"):
                torch.manual_seed(0)
                for i, s in zip(range(most), op.sample_inputs("cpu", dtype), strict=False):
                    label = f"{op.formatted_name} {dtype} sample {i}"
                    batch.add(label, rounded(op), s.input, *s.args, **s.kwargs)
    batch.check()
