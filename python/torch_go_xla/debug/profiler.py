"""A timeline of what the process and its devices do: torch_xla's ``torch_xla.debug.profiler``, imported as ``xp``.

::

    import torch_go_xla.debug.profiler as xp

    with xp.trace("steps.json"):
        for i, (x, y) in enumerate(batches):
            with xp.StepTrace("train", step_num=i):
                train(x, y)

The file, in the Trace Event Format, is shown by Perfetto and by chrome://tracing. One row has the steps, from one
``mark_step`` to the next; a row a thread has what was recorded, planned, compiled, copied and waited for; a row a
device has the programs that it ran. The core keeps the latest 131072 spans. While nothing is recorded, a span costs
an atomic load.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from .._core import core as _native
from ..core import xla_model as xm

__all__ = ["StepTrace", "Trace", "start_server", "start_trace", "stop_trace", "trace", "trace_detached", "trace_me"]

_F = TypeVar("_F", bound=Callable[..., Any])

_path: Path | None = None  # of the recording that runs


def trace_detached(*_: Any, **__: Any) -> NoReturn:
    """Raise NotImplementedError, as `start_server` does."""
    raise NotImplementedError("there is no profiler server: record in this process, with profiler.trace(path)")


def start_server(port: int, only_on_master: bool = True) -> object:
    """Raise NotImplementedError: a recording is started in the process itself, by `trace`."""
    trace_detached(port, only_on_master)


def start_trace(path: str | os.PathLike[str]) -> None:
    """Start a recording that `stop_trace` writes to a file, or into a directory.

    RuntimeError if a recording runs already.
    """
    global _path
    target = Path(path)
    if target.suffix != ".json":
        target /= f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.trace.json"
    _native.start_profile()
    _path = target


def stop_trace() -> Path:
    """End the recording when the devices are done, write it, and return the file; RuntimeError if none runs."""
    global _path
    if _path is None:
        raise RuntimeError("stop_trace: no recording runs; start one with start_trace(path)")
    target, _path = _path, None
    events = _native.stop_profile()
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(events, encoding="utf-8")
    return target


@contextlib.contextmanager
def trace(path: str | os.PathLike[str], *remote: Any, **options: Any) -> Iterator[None]:
    """Record what the block does and write it to a file, or into a directory.

    torch_xla's ``trace(service_addr, logdir, …)`` asks a profiler server, which there is none of: more arguments than
    a path are a NotImplementedError.
    """
    if remote or options:
        trace_detached()
    start_trace(path)
    try:
        yield
    finally:
        stop_trace()


class Trace:
    """A span of the calling thread under a name of the user's, as a context; nothing while no recording runs."""

    def __init__(self, name: str, **arguments: Any) -> None:
        self.name = name + "".join(f" {key}={value}" for key, value in arguments.items())
        self._begin: int | None = None

    def __enter__(self) -> None:
        self._begin = int(_native.raw.bindings_ProfileSpan("", 0)) if _path else None

    def __exit__(self, *_: object) -> None:
        if self._begin is not None:
            _native.raw.bindings_ProfileSpan(self.name, self._begin)


class StepTrace(Trace):
    """A `Trace` around a step, which it ends with ``xm.mark_step()``."""

    def __exit__(self, *failure: object) -> None:
        try:
            xm.mark_step()
        finally:
            super().__exit__(*failure)


def trace_me(name: str) -> Callable[[_F], _F]:
    """Return a decorator that makes every call of a function a `Trace`."""

    def decorate(function: _F) -> _F:
        @functools.wraps(function)
        def traced(*args: Any, **kwargs: Any) -> Any:
            with Trace(name):
                return function(*args, **kwargs)

        return traced  # type: ignore[return-value]

    return decorate
