"""The processes of the subjects: `benchmarks.worker`, asked over pipes."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import subjects

ROOT = Path(__file__).resolve().parents[1]
_THREADS = 2


def limit_cores() -> int:
    """Leave this process, and the subjects that it starts, as many cores as they have threads; return that number."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:_THREADS])
    return _THREADS


def environment(name: str, cache: str | None = None) -> dict[str, str]:
    """Return the variables of a subject's process; ``cache`` is a folder for compiled programs."""
    threads = {"OMP_NUM_THREADS": str(_THREADS), "MKL_NUM_THREADS": str(_THREADS), "TF_CPP_MIN_LOG_LEVEL": "3"}
    module = subjects.load(name)
    kept = {module.CACHE: cache} if cache and hasattr(module, "CACHE") else {}
    return {"PJRT_DEVICE": "CPU", **os.environ, **threads, **getattr(module, "ENVIRONMENT", {}), **kept}


def _die_with_parent() -> None:
    """Let the kernel end this process with its parent: a stopped one would not see that its pipe is closed."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Client:
    """A subject in its own process. RuntimeError is what the subject could not do.

    The process is stopped while it is not asked: threads that OpenBLAS and others leave spinning would slow down the
    subject that comes next.
    """

    def __init__(self, name: str, python: str, cache: str | None = None) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [python, "-m", "benchmarks.worker", name],
            cwd=ROOT, env=environment(name, cache), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            preexec_fn=_die_with_parent,
        )  # fmt: skip

    def ask(self, **request: Any) -> Any:
        """Send a request and return the answer."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.send_signal(signal.SIGCONT)
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if line:
            self._process.send_signal(signal.SIGSTOP)
        if not line:
            raise RuntimeError(f"the process of {self.name} ended with {self._process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["ok"]

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.send_signal(signal.SIGCONT)
        self._process.wait()


@contextmanager
def started(name: str, python: str, cache: str | None = None) -> Iterator[Client]:
    """Give the process of a subject, and end it."""
    client = Client(name, python, cache)
    try:
        yield client
    finally:
        client.close()
