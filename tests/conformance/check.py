"""Runs the cases of one op and type and says what came of them.

All cases are recorded first and computed in one sync, as compiling is most of what they cost. If that program
fails, each case is computed alone.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch.testing._internal.common_device_type import precisionOverride, toleranceOverride
from torch.testing._internal.opinfo.core import DecorateInfo
from torch.utils._pytree import tree_flatten

import torch_go_xla
import torch_go_xla.debug.metrics as metrics
from torch_go_xla._backend import fallback

from . import expectations
from .cases import HALVES, Case, Move, cases, mover, supported

_TO_CPU, _TO_WIDE, _TO_XLA = mover("cpu"), mover("cpu", wide=True), mover("xla")


@dataclass
class Report:
    """What came of the cases of one kind of one op and type."""

    op: str
    dtype: str
    kind: str
    passed: int = 0
    failures: list[str] = field(default_factory=list)
    fallbacks: list[str] = field(default_factory=list)
    decomposed: list[str] = field(default_factory=list)

    def line(self) -> dict[str, Any]:
        """Return it as what JSON can carry."""
        return asdict(self)


@dataclass
class _Pending:
    report: Report
    label: str
    case: Case
    random: bool
    want: list[Any]
    got: list[Any]


def check(op: Any, dtype: torch.dtype, kinds: list[str], most: int) -> list[Report]:
    """Compare an op's cases of some kinds; at most so many samples of each."""
    reports, pending = [], []
    with warnings.catch_warnings(), _decompositions() as decomposed:
        warnings.simplefilter("ignore")
        for kind in kinds:
            if not supported(op, dtype, kind):
                continue
            report = Report(op.formatted_name, str(dtype).removeprefix("torch."), kind)
            reports.append(report)
            decomposed.clear()
            metrics.clear_counters()
            if kind == "errors":
                _compare_errors(op, report)
            else:
                pending += _record(op, dtype, report, most)
            report.fallbacks = metrics.executed_fallback_ops()
            report.decomposed = sorted(decomposed)
        try:
            torch_go_xla.sync()
        except Exception:  # noqa: BLE001 - every case is computed alone below
            pass
        for p in pending:
            error = _difference(op, p.got, p.want, p.random)
            if isinstance(error, RuntimeError):  # perhaps of another case of the same program
                error = _alone(op, p)
            if error is not None and dtype in HALVES:
                exact = _exact(p)
                once = [e.to(w.dtype) if _is_half(w) else w for e, w in zip(exact, p.want, strict=True)]
                error = _difference(op, p.got, once, p.random)
                if error is not None and _as_near(p.got, p.want, exact):
                    error = None
            if error is None:
                p.report.passed += 1
            else:
                p.report.failures.append(f"{p.label}: {_text(error)}")
    return reports


def run_on_cpu(op: Any, dtype: torch.dtype, kinds: list[str], most: int) -> list[Report]:
    """Run the same cases on the CPU alone."""
    for kind in kinds:
        for _, _, case in cases(op, dtype, kind, most):
            with suppress(Exception):
                case(_TO_CPU)
    return []


def _compare_errors(op: Any, report: Report) -> None:
    """Compare the classes of the exceptions at the call, over torch's samples of what an op refuses."""
    for i, sample in enumerate(op.error_inputs("cpu")):
        want, got = (_refusal(op, sample.sample_input, move) for move in (_TO_CPU, _TO_XLA))
        if want is None:  # torch does not refuse it on the CPU
            continue
        if isinstance(got, type(want)):
            report.passed += 1
        else:
            report.failures.append(f"{i}: {got and _text(got)}, expected {_text(want)}")


def _refusal(op: Any, sample: Any, move: Move) -> Exception | None:
    try:
        value, args, kwargs = move((sample.input, sample.args, sample.kwargs))
        op(value, *args, **kwargs)
    except Exception as error:  # noqa: BLE001 - returned
        return error
    return None


def _record(op: Any, dtype: torch.dtype, report: Report, most: int) -> Iterator[_Pending]:
    try:
        for label, sample, case in cases(op, dtype, report.kind, most):
            try:
                want = _leaves(case(_TO_CPU))
            except Exception:  # noqa: BLE001 - torch itself cannot
                continue
            try:
                got = _on_xla(case)
            except Exception as error:  # noqa: BLE001 - reported
                report.failures.append(f"{label}: {_text(error)}")
                continue
            yield _Pending(report, label, case, expectations.is_random(report.op, sample), want, got)
    except Exception as error:  # noqa: BLE001 - a sample that cannot be made
        report.failures.append(f"samples: {_text(error)}")


def _leaves(tree: Any) -> list[Any]:
    return tree_flatten(tree)[0]


def _on_xla(case: Case) -> list[Any]:
    with torch.device("xla"):  # of what a case makes without naming a device
        return _leaves(case(_TO_XLA))


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"


def _exact(p: _Pending) -> list[Any]:
    """Return what the CPU computes in float32: in half types it rounds between the steps, XLA need not."""
    try:
        return _leaves(p.case(_TO_WIDE))
    except Exception:  # noqa: BLE001 - some ops are for half types alone
        return p.want


def _is_half(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.dtype in HALVES


def _as_near(got: list[Any], want: list[Any], exact: list[Any]) -> bool:
    """Say whether the errors of half results are no larger than twice the largest of the CPU's own."""
    for g, w, e in zip(got, want, exact, strict=True):
        if not _is_half(w) or not isinstance(g, torch.Tensor) or g.shape != w.shape or g.dtype != w.dtype:
            return False
        g, w, e = (x.detach().cpu().to_dense().to(torch.float64) for x in (g, w, e))
        if not torch.equal(g.isfinite(), w.isfinite()):
            return False
        finite = w.isfinite() & e.isfinite()
        if finite.any() and (g - e)[finite].abs().max() > 2 * (w - e)[finite].abs().max():
            return False
    return True


def _alone(op: Any, p: _Pending) -> Exception | None:
    try:
        got = _on_xla(p.case)
        torch_go_xla.sync()
    except Exception as error:  # noqa: BLE001 - reported
        return error
    return _difference(op, got, p.want, p.random)


def _difference(op: Any, got: list[Any], want: list[Any], random: bool) -> Exception | None:
    if len(got) != len(want):
        return AssertionError(f"{len(got)} results, expected {len(want)}")
    for g, w in zip(got, want, strict=True):
        try:
            _compare(op, g, w, random)
        except Exception as error:  # noqa: BLE001 - returned
            return error
    return None


def _compare(op: Any, got: Any, want: Any, random: bool) -> None:
    if not isinstance(want, torch.Tensor):
        same = got == want or (isinstance(want, float) and math.isclose(got, want, rel_tol=1e-5, abs_tol=1e-5))
        same = same or (want != want and got != got)
        assert random or same, f"{got!r}, expected {want!r}"
        return
    assert isinstance(got, torch.Tensor), f"{type(got)}, expected a tensor"
    assert got.device.type == "xla", f"a result on {got.device}"
    assert got.dtype == want.dtype, f"{got.dtype}, expected {want.dtype}"
    assert got.shape == want.shape, f"shape {list(got.shape)}, expected {list(want.shape)}"
    got = got.detach().cpu()
    if not random:
        rtol, atol = tolerance_of(op, want.dtype)
        torch.testing.assert_close(got, want.detach(), rtol=rtol, atol=atol, equal_nan=True)


# Those of torch.testing.assert_close.
_DEFAULT = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex64: (1.3e-6, 1e-5),
    torch.complex128: (1e-7, 1e-7),
}


def tolerance_of(op: Any, dtype: torch.dtype) -> tuple[float, float]:
    """Return torch's relative and absolute tolerance for an op's results of a type.

    Those of torch.testing, or the op's own where torch gives it one for all devices, or ours with a reason.
    """
    if dtype not in _DEFAULT:
        return 0.0, 0.0
    rtol, atol = _DEFAULT[dtype]
    found = [expectations.tolerance(op.formatted_name, dtype)]
    for decorator in _decorators(op):
        if isinstance(decorator, toleranceOverride) and dtype in decorator.d:
            found.append((decorator.d[dtype].rtol, decorator.d[dtype].atol))
        elif isinstance(decorator, precisionOverride) and dtype in decorator.d:
            found.append((0.0, decorator.d[dtype]))
    return max(rtol, *(r for r, _ in found)), max(atol, *(a for _, a in found))


def _decorators(op: Any) -> Iterator[Any]:
    """Yield the decorators that torch gives an op's common tests, on any device."""
    for info in op.decorators or ():
        if not isinstance(info, DecorateInfo):
            yield info
        elif info.cls_name in (None, "TestCommon") and info.device_type in (None, "cpu", "cuda"):
            yield from info.decorators


@contextmanager
def _decompositions() -> Iterator[set[str]]:
    """Collect the names of the ops that torch's decompositions make of others."""
    names: set[str] = set()
    original = fallback._decomposition

    def noting(op: Any) -> Any:
        function = original(op)
        if function is not None:
            names.add(op.name())
        return function

    fallback._decomposition = noting
    try:
        yield names
    finally:
        fallback._decomposition = original
