"""Writes the metrics to a file: torch_xla's ``torch_xla.debug.metrics_saver``."""

from __future__ import annotations

import os
import sys

from .. import runtime
from . import metrics

__all__ = ["save_metrics"]


def append_report(path: str) -> None:
    """Append the metrics report to a file, or write it to STDOUT or STDERR, under the number of steps so far."""
    text = f"[MetricsData; step={metrics.counter_value('MarkStep') or 0}]\n{metrics.metrics_report()}\n"
    if path in ("STDOUT", "STDERR"):
        print(text, file=sys.stdout if path == "STDOUT" else sys.stderr)
        return
    with open(path, "a", encoding="utf-8") as file:
        file.write(text)


def save_metrics(metrics_file: str | None = None) -> None:
    r"""Append the metrics report to a file.

    Each report begins with the number of steps that the process has marked, as the reports that the variable asks for
    at each step do.

    Args:
        metrics_file: the path, STDOUT or STDERR; by default the variable XLA_METRICS_FILE, in a job with the number of
            the process behind it. Nothing is written if that is not set.

    Raises:
        OSError: the file cannot be written.

    Example:
        >>> import os, tempfile
        >>> from torch_go_xla.debug.metrics_saver import save_metrics
        >>> path = os.path.join(tempfile.mkdtemp(), "metrics.txt")
        >>> save_metrics(path)
        >>> open(path).readline()
        '[MetricsData; step=...]\n'
    """
    if metrics_file is None:
        metrics_file = os.environ.get("XLA_METRICS_FILE")
        if metrics_file and runtime.world_size() > 1:
            metrics_file = f"{metrics_file}.{runtime.local_ordinal()}"
    if not metrics_file:
        return
    append_report(metrics_file)
