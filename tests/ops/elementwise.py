"""Compares many elementwise ops in few programs, and expressions with the CPU's result or exception."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
from cpu_reference import Batch, Tolerance, opinfos
from torch.utils._pytree import tree_leaves

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
COMPLEX = (torch.complex64, torch.complex128)
ALL = (*FLOATS, *INTEGERS, torch.bool, *COMPLEX)

# No subnormal numbers: XLA:CPU computes with flush to zero.
_SPECIAL = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.0,
    -2.0,
    3.0,
    7.25,
    -7.25,
    100.0,
    -100.0,
    1e-3,
    math.inf,
    -math.inf,
    math.nan,
)


def special_values(dtype: torch.dtype) -> torch.Tensor:
    """Return the values at which elementwise functions tend to differ."""
    if dtype == torch.bool:
        return torch.tensor([True, False])
    if not dtype.is_floating_point and not dtype.is_complex:
        info = torch.iinfo(dtype)
        return torch.tensor([x for x in (0, 1, 2, 3, 7, 100, -1, -2, -7, -100) if x >= info.min], dtype=dtype)
    if dtype.is_complex:
        finite = [x for x in _SPECIAL if math.isfinite(x) and abs(x) < 10]
        return torch.tensor([complex(a, b) for a in finite for b in finite], dtype=dtype)
    return torch.tensor(_SPECIAL, dtype=dtype)


def check_samples(
    names: Iterable[str],
    dtype: torch.dtype,
    *,
    most: int = 1,
    backward: bool = False,
    tolerance: Tolerance | None = None,
) -> None:
    """Compare ops over the first and largest of their OpInfo samples of a type."""
    batch = Batch(tolerance)
    for name in names:
        for op in opinfos(name):
            if dtype not in (op.supported_backward_dtypes("cpu") if backward else op.supported_dtypes("cpu")):
                continue
            if backward and not op.supports_autograd:
                continue
            torch.manual_seed(0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                samples = list(op.sample_inputs("cpu", dtype, requires_grad=backward))
                for i, s in enumerate(sorted(samples, key=_size, reverse=True)[:most]):
                    label = f"{op.formatted_name} {dtype} sample {i}"
                    batch.add(label, op, s.input, *s.args, backward=backward, **s.kwargs)
    batch.check()


def _size(sample: Any) -> int:
    """Count the elements of a sample, up to a size that is enough."""
    count = sum(x.numel() for x in tree_leaves((sample.input, sample.args)) if isinstance(x, torch.Tensor))
    return min(count, 600)


Case = Callable[[], Any]


def _outcome(case: Case, device: str) -> Any:
    with warnings.catch_warnings(), torch.device(device):
        warnings.simplefilter("ignore")
        try:
            return case()
        except Exception as error:  # noqa: BLE001 - its class and text are what is compared
            return (type(error).__name__, str(error).splitlines()[0] if str(error) else "")


def check_cases(cases: Iterable[Case], *, rtol: float | None = None, atol: float | None = None) -> None:
    """Compare what expressions give on xla with what they give on the CPU: values, types, or the exception."""
    failures = []
    for number, case in enumerate(cases):
        want, got = _outcome(case, "cpu"), _outcome(case, "xla")
        where = f"case {number} at line {case.__code__.co_firstlineno}"
        for w, g in zip(tree_leaves(want), tree_leaves(got), strict=False):
            if isinstance(w, torch.Tensor) and isinstance(g, torch.Tensor):
                try:
                    torch.testing.assert_close(g.cpu(), w, rtol=rtol, atol=atol, equal_nan=True)
                except AssertionError as error:
                    failures.append(f"{where}: {' '.join(str(error).split())}\n  want {w}\n  got  {g.cpu()}")
            elif w != g:
                failures.append(f"{where}: want {w!r}, got {g!r}")
    assert not failures, "\n".join(failures)
