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
import http.server
import os
import threading
import time
import urllib.parse
import urllib.request
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from .._core import core as _native
from ..core import xla_model as xm

__all__ = ["StepTrace", "Trace", "start_server", "start_trace", "stop_trace", "trace", "trace_detached", "trace_me"]

_F = TypeVar("_F", bound=Callable[..., Any])

# The core refuses a second recording: who has started one sets these.
_path: Path | None = None  # of the recording that this process has started
_serving = False  # a recording that another process has asked for


def start_trace(log_dir: str | os.PathLike[str]) -> None:
    """Start a recording that `stop_trace` writes.

    Args:
        log_dir: a file that ends in ``.json``, or a directory, which is made.

    Raises:
        RuntimeError: a recording runs already.

    Example:
        >>> import tempfile, torch, torch_go_xla, torch_go_xla.debug.profiler as xp
        >>> xp.start_trace(tempfile.mkdtemp())
        >>> x = (torch.ones(2, device="xla") + 1).tolist()
        >>> xp.stop_trace().name
        '...trace.json'
    """
    global _path
    target = Path(log_dir)
    if target.suffix != ".json":
        target /= f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.trace.json"
    _native.start_profile()
    _path = target


def stop_trace() -> Path:
    """End the recording when the devices are done, write it, and return the file.

    Raises:
        RuntimeError: no recording runs.
        OSError: the file cannot be written.

    Example:
        >>> import torch_go_xla.debug.profiler as xp
        >>> xp.stop_trace()
        Traceback (most recent call last):
        RuntimeError: stop_trace: no recording runs; start one with start_trace(path)
    """
    global _path
    if _path is None:
        raise RuntimeError("stop_trace: no recording runs; start one with start_trace(path)")
    target, _path = _path, None
    _write(target, _native.stop_profile())
    return target


def _write(target: Path, events: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(events, encoding="utf-8")


# ---- from another process ----

_LONGEST = 600_000  # ms of one recording that another process asks for


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers a request for a recording: GET /trace?duration_ms=1000."""

    def do_GET(self) -> None:
        """Record, and answer with the events."""
        global _serving
        url = urllib.parse.urlsplit(self.path)
        text = urllib.parse.parse_qs(url.query).get("duration_ms", [""])[0]
        if url.path != "/trace" or not text.isdigit() or not 1 <= int(text) <= _LONGEST:
            self.send_error(400, f"want /trace?duration_ms=N with N from 1 to {_LONGEST}")
            return
        if _path is not None:
            self.send_error(409, "a recording runs already")
            return
        try:
            _native.start_profile()
        except RuntimeError as e:
            self.send_error(409, str(e))
            return
        _serving = True
        time.sleep(int(text) / 1000)
        _serving = False
        body = _native.stop_profile().encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing: the program's output is its own."""


def _serve(server: http.server.HTTPServer, owner: Callable[[], object], closed: threading.Event) -> None:
    """Answer requests until the owner is closed or gone; it is asked, so that its end waits for nothing."""
    server.timeout = 0.2  # s
    with server:
        while not closed.is_set() and owner() is not None:
            server.handle_request()


class Server:
    """Records what this process does when another one asks, until it dies; see `start_server`."""

    def __init__(self, port: int) -> None:
        self._server = http.server.HTTPServer(("127.0.0.1", port), _Handler)
        self.port = int(self._server.server_address[1])
        self._closed = threading.Event()
        args = self._server, weakref.ref(self), self._closed
        self._thread = threading.Thread(target=_serve, args=args, name="profiler server", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answer no more requests."""
        self._closed.set()
        self._thread.join()


def start_server(port: int, only_on_master: bool = True) -> Server | None:
    """Let other processes of this machine record what this one does, by `trace` with the address ``localhost:port``.

    Args:
        port: of 127.0.0.1; 0 takes a free one, which is the server's ``port``.
        only_on_master: the other processes of a job return None.

    Returns:
        The server, which lives as long as it is kept.

    Raises:
        OSError: the port is taken.

    Example:
        >>> import torch_go_xla.debug.profiler as xp
        >>> server = xp.start_server(0)
        >>> server.port > 0
        True
        >>> server.close()
    """
    if only_on_master and not xm.is_master_ordinal():
        return None
    return Server(port)


def _remote(
    service_addr: str, logdir: str | os.PathLike[str], duration_ms: int, num_tracing_attempts: int, timeout_s: float
) -> None:
    url = f"http://{service_addr.removeprefix('http://')}/trace?duration_ms={duration_ms}"
    for left in reversed(range(num_tracing_attempts)):
        try:
            with urllib.request.urlopen(url, timeout=duration_ms / 1000 + timeout_s) as answer:
                events = answer.read().decode()
            break
        except OSError as e:
            if not left:
                raise RuntimeError(f"no recording from the profiler server at {service_addr}: {e}") from e
            time.sleep(0.5)
    _write(Path(logdir) / f"{time.strftime('%Y%m%d-%H%M%S')}-{service_addr.replace(':', '-')}.trace.json", events)


@contextlib.contextmanager
def _recording(path: str | os.PathLike[str]) -> Iterator[None]:
    start_trace(path)
    try:
        yield
    finally:
        stop_trace()


def trace(
    service_addr: str | os.PathLike[str],
    logdir: str | os.PathLike[str] | None = None,
    duration_ms: int = 1000,
    num_tracing_attempts: int = 3,
    host_tracer_level: int = 2,
    device_tracer_level: int = 1,
    delay_ms: int = 0,
    timeout_s: float = 120,
    interval_s: float = 5,
) -> Any:
    """Record what a block does, ``with trace("steps.json"): ...``, or what another process does, into a directory.

    Args:
        service_addr: a file or directory for a block; the address of another process's `start_server` with ``logdir``.
        logdir: the directory for what another process does; the call returns when it is written.
        duration_ms: how long to record another process, in ms.
        num_tracing_attempts: how often to ask it.
        host_tracer_level: accepted for torch_xla's programs.
        device_tracer_level: accepted for torch_xla's programs.
        delay_ms: how long to wait before, in ms.
        timeout_s: how long to wait for the answer besides, in seconds.
        interval_s: accepted for torch_xla's programs.

    Returns:
        The context for a block; None with ``logdir``.

    Raises:
        RuntimeError: a recording runs already, or the other process does not answer.

    Example:
        >>> import json, os, tempfile, torch, torch_go_xla, torch_go_xla.debug.profiler as xp
        >>> path = os.path.join(tempfile.mkdtemp(), "steps.json")
        >>> with xp.trace(path):
        ...     x = torch.ones(2, device="xla") + 1
        ...     torch_go_xla.sync()
        >>> with open(path) as file:  # for Perfetto or chrome://tracing
        ...     events = json.load(file)
    """
    if logdir is None:
        return _recording(service_addr)
    time.sleep(delay_ms / 1000)
    _remote(os.fspath(service_addr), logdir, duration_ms, num_tracing_attempts, timeout_s)
    return None


def trace_detached(*args: Any, **kwargs: Any) -> threading.Thread:
    """Call `trace` in a thread of its own, and return that.

    Args:
        args: as for `trace`.
        kwargs: as for `trace`.

    Example:
        >>> import tempfile, torch_go_xla.debug.profiler as xp
        >>> server = xp.start_server(0)
        >>> folder = tempfile.mkdtemp()
        >>> thread = xp.trace_detached(f"localhost:{server.port}", logdir=folder, duration_ms=10)
        >>> thread.join()  # what the process did in these 10 ms is in the folder
        >>> server.close()
    """
    thread = threading.Thread(target=trace, args=args, kwargs=kwargs, name="trace_detached", daemon=True)
    thread.start()
    return thread


class Trace:
    """A span of the calling thread under a name of the user's, as a context; nothing while no recording runs.

    Args:
        name: the name.
        kwargs: values that are written behind the name.

    Example:
        >>> import torch_go_xla.debug.profiler as xp
        >>> with xp.Trace("augment", batch=3):  # the span "augment batch=3"
        ...     batch = list(range(100))
    """

    def __init__(self, name: str, **kwargs: Any) -> None:
        self.name = name + "".join(f" {key}={value}" for key, value in kwargs.items())
        self._begin: int | None = None

    def __enter__(self) -> None:
        self._begin = _native.profile_span("", 0) if _path or _serving else None

    def __exit__(self, *_: object) -> None:
        if self._begin is not None:
            _native.profile_span(self.name, self._begin)


class StepTrace(Trace):
    """A `Trace` around a step, which it ends with ``xm.mark_step()``.

    Example:
        >>> import torch, torch_go_xla, torch_go_xla.debug.profiler as xp
        >>> for step in range(2):
        ...     with xp.StepTrace("train", step_num=step):
        ...         x = torch.ones(2, device="xla") + 1
    """

    def __exit__(self, *failure: object) -> None:
        try:
            xm.mark_step()
        finally:
            super().__exit__(*failure)


def trace_me(scope: str) -> Callable[[_F], _F]:
    """Return a decorator that makes every call of a function a `Trace`.

    Args:
        scope: the name of the spans.

    Example:
        >>> import torch_go_xla.debug.profiler as xp
        >>> @xp.trace_me("augment")
        ... def augment(batch):
        ...     return batch[::-1]
        >>> augment([1, 2])
        [2, 1]
    """

    def decorate(function: _F) -> _F:
        @functools.wraps(function)
        def traced(*args: Any, **kwargs: Any) -> Any:
            with Trace(scope):
                return function(*args, **kwargs)

        return traced  # type: ignore[return-value]

    return decorate
