"""Counters and timings: torch_xla's ``torch_xla.debug.metrics``, usually imported as ``met``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._core import core as _native

__all__ = [
    "clear_all",
    "clear_counters",
    "clear_metrics",
    "client_memory",
    "counter_names",
    "counter_value",
    "executed_fallback_ops",
    "metric_data",
    "metric_names",
    "metrics_report",
    "short_metrics_report",
]

_SHORT_COUNTERS = ("CachedCompile", "UncachedCompile", "MarkStep", "TracedOps")
_SHORT_METRICS = ("CompileTime", "ExecuteTime", "TransferToDeviceTime", "TransferFromDeviceTime")


def counter_names() -> list[str]:
    """Return the names of the counters that are not zero."""
    return sorted(_native.counters())


def counter_value(name: str) -> int | None:
    """Return a counter; None if nothing was counted."""
    return _native.counters().get(name)


def metric_names() -> list[str]:
    """Return the names of the metrics that have samples."""
    return [m["name"] for m in _native.metrics()]


def metric_data(name: str) -> tuple[int, float, list[tuple[float, float]]] | None:
    """Return count, total (ns or bytes) and the latest samples of a metric; None if it has none."""
    for m in _native.metrics():
        if m["name"] == name:
            return m["count"], m["total"], [(0.0, s) for s in m["samples"]]
    return None


def client_memory() -> dict[str, tuple[int, int]]:
    """Return the C memory that the client of the device's plugin holds, by purpose: bytes and blocks.

    What the plugin itself holds is in ``xm.get_memory_info``.
    """
    return {purpose: (held[0], held[1]) for purpose, held in _native.client_memory().items()}


def clear_counters() -> None:
    """Set all counters to zero."""
    _native.clear(True, False)


def clear_metrics() -> None:
    """Drop all samples."""
    _native.clear(False, True)


def clear_all() -> None:
    """Forget everything counted and measured."""
    clear_counters()
    clear_metrics()


def executed_fallback_ops() -> list[str]:
    """Return the ops that ran on the CPU because the device has no lowering for them."""
    others = ("SizeSync.", "NotInterpretable:")
    return [name for name in counter_names() if "::" in name and not name.startswith(others)]


def _text(value: float, unit: str) -> str:
    if unit == "ns":
        for size, name in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
            if value >= size:
                return f"{value / size:.3f} {name}"
        return f"{value:.0f} ns"
    if unit == "bytes":
        for size, name in ((2**30, "GB"), (2**20, "MB"), (2**10, "kB")):
            if value >= size:
                return f"{value / size:.2f} {name}"
        return f"{value:.0f} B"
    return f"{value:g}"


def _metric(m: dict[str, Any]) -> str:
    picks = " ".join(f"{level:.0%}={_text(value, m['unit'])}" for level, value in m["percentiles"])
    return (
        f"Metric: {m['name']}\n  TotalSamples: {m['count']}\n  Accumulator: {_text(m['total'], m['unit'])}\n"
        f"  Percentiles: {picks}\n"
    )


def metrics_report() -> str:
    """Return everything counted and measured, as text."""
    parts = [_metric(m) for m in _native.metrics()]
    parts += [f"Counter: {name}\n  Value: {value}\n" for name, value in sorted(_native.counters().items())]
    parts += [f"ClientMemory: {purpose}\n  Value: {_text(n, 'bytes')}\n" for purpose, (n, _) in client_memory().items()]
    return "".join(parts)


def short_metrics_report(counter_names: Sequence[str] | None = None, metric_names: Sequence[str] | None = None) -> str:
    """Return the named counters and metrics, by default those that explain a slow step."""
    wanted_counters = _SHORT_COUNTERS if counter_names is None else counter_names
    wanted_metrics = _SHORT_METRICS if metric_names is None else metric_names
    parts = [_metric(m) for m in _native.metrics() if m["name"] in wanted_metrics]
    known = _native.counters()
    parts += [f"Counter: {name}\n  Value: {known[name]}\n" for name in wanted_counters if name in known]
    if counter_names is None:
        parts += [f"Counter: {name}\n  Value: {known[name]}\n" for name in executed_fallback_ops()]
    return "".join(parts)
