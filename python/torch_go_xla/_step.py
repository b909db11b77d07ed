"""The end of a step: what is computed, and what the program asked to run then."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ._core import core
from .utils.closures import AsyncClosureHandler, Closure

_lock = threading.Lock()
_waiting: list[tuple[Closure, bool]] = []  # closures, and whether each runs beside the next steps; guarded by _lock
_handler: AsyncClosureHandler | None = None  # made once, under _lock


def add_closure(closure: Callable[[], object], run_async: bool) -> None:
    """Run a closure when the step has ended, in this thread or beside the next steps."""
    with _lock:
        _waiting.append((closure, run_async))


def report() -> None:
    """Append the metrics report to the file that XLA_METRICS_FILE names, if any."""
    if core.metrics_file:
        from .debug.metrics_saver import append_report

        append_report(core.metrics_file)


def end(wait: bool) -> None:
    """Compute everything that is recorded, on every device, then run the closures that were added.

    A closure that ends a step itself finds none of those that were added before it.
    """
    global _handler
    try:
        core.end_step(wait)
    finally:
        report()
    if not _waiting:
        return
    with _lock:
        closures = _waiting.copy()
        _waiting.clear()
        if _handler is None and any(run_async for _, run_async in closures):
            _handler = AsyncClosureHandler()
    for closure, run_async in closures:
        if run_async and _handler is not None:
            _handler.run(closure)
    for closure, run_async in closures:
        if not run_async:
            closure()
