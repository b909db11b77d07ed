"""Writes the metrics to a file: torch_xla's ``torch_xla.debug.metrics_saver``."""

from __future__ import annotations

import itertools
import os
import sys

from .. import runtime
from . import metrics

__all__ = ["save_metrics"]

_steps = itertools.count()


def save_metrics(metrics_file: str | None = None) -> None:
    """Append the metrics report to a file, by default that of the variable XLA_METRICS_FILE, or to STDOUT or STDERR.

    In a job, the default has the number of the process behind it.
    """
    if metrics_file is None:
        metrics_file = os.environ.get("XLA_METRICS_FILE")
        if metrics_file and runtime.world_size() > 1:
            metrics_file = f"{metrics_file}.{runtime.local_ordinal()}"
    if not metrics_file:
        return
    text = f"[MetricsData; step={next(_steps)}]\n{metrics.metrics_report()}\n"
    if metrics_file in ("STDOUT", "STDERR"):
        print(text, file=sys.stdout if metrics_file == "STDOUT" else sys.stderr)
        return
    with open(metrics_file, "a", encoding="utf-8") as file:
        file.write(text)
