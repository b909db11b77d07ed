"""Counters and timings: torch_xla's ``torch_xla.debug.metrics``, usually imported as ``met``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._backend import html
from .._core import core as _native

__all__ = [
    "Report",
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
    "report",
    "short_metrics_report",
]

_SHOWN = (0.5, 0.95)  # of the percentiles, in a table
_SHORT_COUNTERS = ("CachedCompile", "UncachedCompile", "MarkStep", "TracedOps")
_SHORT_METRICS = ("CompileTime", "ExecuteTime", "TransferToDeviceTime", "TransferFromDeviceTime")


def counter_names() -> list[str]:
    """Return the names of the counters that are not zero, sorted.

    Example:
        >>> import torch, torch_go_xla, torch_go_xla.debug.metrics as met
        >>> torch_go_xla.sync()
        >>> "MarkStep" in met.counter_names()
        True
    """
    return sorted(_native.counters())


def counter_value(name: str) -> int | None:
    """Return a counter; None if nothing was counted.

    Args:
        name: the counter, as docs/metrics.md lists them.

    Example:
        >>> import torch, torch_go_xla, torch_go_xla.debug.metrics as met
        >>> met.clear_counters()
        >>> x = torch.ones(17, device="xla") * 5
        >>> torch_go_xla.sync(wait=True)
        >>> met.counter_value("MarkStep"), met.counter_value("CachedCompile")
        (1, None)
    """
    return _native.counters().get(name)


def metric_names() -> list[str]:
    """Return the names of the metrics that have samples.

    Example:
        >>> import torch, torch_go_xla, torch_go_xla.debug.metrics as met
        >>> x = (torch.ones(3, device="xla") * 5).tolist()
        >>> "TransferFromDeviceTime" in met.metric_names()
        True
    """
    return [m["name"] for m in _native.metrics()]


def metric_data(name: str) -> tuple[int, float, list[tuple[float, float]]] | None:
    """Return the samples of a metric; None if it has none.

    Args:
        name: the metric, as docs/metrics.md lists them.

    Returns:
        The count of all samples, their total, and the latest samples as pairs of a time, which is 0 here, and a value.
        Times are in ns, sizes in bytes.

    Example:
        >>> import torch, torch_go_xla, torch_go_xla.debug.metrics as met
        >>> x = (torch.ones(3, device="xla") * 5).tolist()
        >>> count, total, samples = met.metric_data("ExecuteTime")
        >>> count >= 1, total >= samples[-1][1]
        (True, True)
    """
    for m in _native.metrics():
        if m["name"] == name:
            return m["count"], m["total"], [(0.0, s) for s in m["samples"]]
    return None


def client_memory() -> dict[str, tuple[int, int]]:
    """Return the C memory that the client of the device's plugin holds, by purpose: bytes and blocks.

    What the plugin itself holds is in ``xm.get_memory_info``.

    Example:
        >>> import torch, torch_go_xla, torch_go_xla.debug.metrics as met
        >>> x = torch.ones(3, device="xla").tolist()
        >>> all(bytes >= 0 and blocks >= 0 for bytes, blocks in met.client_memory().values())
        True
    """
    return {purpose: (held[0], held[1]) for purpose, held in _native.client_memory().items()}


def clear_counters() -> None:
    """Set all counters to zero.

    Example:
        >>> import torch_go_xla.debug.metrics as met
        >>> met.clear_counters()
        >>> met.counter_value("MarkStep") is None
        True
    """
    _native.clear(True, False)


def clear_metrics() -> None:
    """Drop all samples.

    Example:
        >>> import torch_go_xla.debug.metrics as met
        >>> met.clear_metrics()
        >>> met.metric_names()
        []
    """
    _native.clear(False, True)


def clear_all() -> None:
    """Set all counters to zero and drop all samples.

    Example:
        >>> import torch_go_xla.debug.metrics as met
        >>> met.clear_all()  # before the step that is to be measured
    """
    clear_counters()
    clear_metrics()


def executed_fallback_ops() -> list[str]:
    """Return the ops that ran on the CPU because the device has no lowering for them.

    Example:
        >>> import torch_go_xla.debug.metrics as met
        >>> met.clear_all()
        >>> met.executed_fallback_ops()
        []
    """
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


class Report:
    """Everything counted and measured at one moment; printed as `metrics_report`, by a notebook as tables.

    Example:
        >>> import torch, torch_go_xla, torch_go_xla.debug.metrics as met
        >>> x = (torch.ones(3, device="xla") * 5).tolist()
        >>> print(met.report())
        Metric: ...
          TotalSamples: ...
        Counter: ...
    """

    def __init__(self) -> None:
        self._metrics = _native.metrics()
        self._counters = sorted(_native.counters().items())
        self._memory = client_memory()

    def __str__(self) -> str:
        parts = [_metric(m) for m in self._metrics]
        parts += [f"Counter: {name}\n  Value: {value}\n" for name, value in self._counters]
        parts += [
            f"ClientMemory: {purpose}\n  Value: {_text(n, 'bytes')}\n" for purpose, (n, _) in self._memory.items()
        ]
        return "".join(parts)

    def __repr__(self) -> str:
        return f"Report of {len(self._metrics)} metrics and {len(self._counters)} counters"

    def _repr_html_(self) -> str:
        times = [
            (
                m["name"],
                m["count"],
                _text(m["total"], m["unit"]),
                *(_text(dict(m["percentiles"])[p], m["unit"]) for p in _SHOWN),
            )
            for m in self._metrics
        ]
        held = [(purpose, _text(n, "bytes"), blocks) for purpose, (n, blocks) in self._memory.items()]
        return (
            html.table(times, ("metric", "samples", "total", *(f"{p:.0%}" for p in _SHOWN)))
            + html.table(self._counters, ("counter", "value"))
            + html.table(held, ("memory of the client", "size", "blocks"))
        )


def report() -> Report:
    """Return everything counted and measured, which a notebook shows as tables.

    Example:
        >>> import torch_go_xla, torch_go_xla.debug.metrics as met
        >>> torch_go_xla.sync()
        >>> met.report()
        Report of ... metrics and ... counters
    """
    return Report()


def metrics_report() -> str:
    """Return everything counted and measured, as text.

    Example:
        >>> import torch, torch_go_xla, torch_go_xla.debug.metrics as met
        >>> met.clear_all()
        >>> x = (torch.ones(3, device="xla") * 5).tolist()
        >>> print(met.metrics_report())
        Metric: ...
          TotalSamples: ...
          Accumulator: ...
          Percentiles: ...
        Counter: ...
    """
    return str(report())


def short_metrics_report(counter_names: Sequence[str] | None = None, metric_names: Sequence[str] | None = None) -> str:
    """Return the named counters and metrics, by default those that explain a slow step.

    Args:
        counter_names: the counters.
        metric_names: the metrics.

    Example:
        >>> import torch, torch_go_xla, torch_go_xla.debug.metrics as met
        >>> met.clear_all()
        >>> torch_go_xla.sync()
        >>> print(met.short_metrics_report(counter_names=["MarkStep"], metric_names=[]))
        Counter: MarkStep
          Value: 1
    """
    wanted_counters = _SHORT_COUNTERS if counter_names is None else counter_names
    wanted_metrics = _SHORT_METRICS if metric_names is None else metric_names
    parts = [_metric(m) for m in _native.metrics() if m["name"] in wanted_metrics]
    known = _native.counters()
    parts += [f"Counter: {name}\n  Value: {known[name]}\n" for name in wanted_counters if name in known]
    if counter_names is None:
        parts += [f"Counter: {name}\n  Value: {known[name]}\n" for name in executed_fallback_ops()]
    return "".join(parts)
