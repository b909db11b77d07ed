"""The end of a step: what is computed, and what the program asked to run then."""

from __future__ import annotations

import threading
from collections.abc import Callable

from . import _XLAC
from .utils.closures import AsyncClosureHandler, Closure

_waiting: list[tuple[Closure, bool]] = []
_lock = threading.Lock()
_handler: AsyncClosureHandler | None = None


def add_closure(closure: Callable[[], object], run_async: bool) -> None:
    """Run a closure when the step has ended, in this thread or beside the next steps."""
    with _lock:
        _waiting.append((closure, run_async))


def end(wait: bool, reset_scope: bool) -> None:
    """Compute everything that is recorded, on every device, then run the closures that were added.

    A closure that ends a step itself finds none of those that were added before it.
    """
    global _handler
    _XLAC._xla_step_marker("", [], wait=wait, reset_scope=reset_scope)
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
