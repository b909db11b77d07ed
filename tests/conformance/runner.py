"""Spreads ops over worker processes, and says which op it was if one dies."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]
# How a report's failure begins if the process dies without xla too.
TORCH_DIES = "torch's kernel dies"


@dataclass(frozen=True)
class Job:
    """One op and type, with the kinds of use to check."""

    op: str
    dtype: str
    kinds: tuple[str, ...]
    most: int  # samples of each kind


class Worker:
    """A worker process, started again when it dies or does not answer."""

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self.served = 0
        self.process: subprocess.Popen[str] | None = None
        self.errors = tempfile.TemporaryFile("w+")

    def ask(self, job: Job) -> list[dict[str, Any]]:
        """Return the reports of a job; a death is reported for all its kinds."""
        answer, cause = self._send(job)
        if not cause:
            return json.loads(answer)
        if len(job.kinds) > 1:  # which of them was it?
            return [r for k in job.kinds for r in self.ask(Job(job.op, job.dtype, (k,), job.most))]
        own = self._send(job, "cpu")[1] if cause.startswith("SIG") and job.kinds[0] != "errors" else ""
        failure = f"{TORCH_DIES}: {own}" if own.startswith("SIG") else f"crash: {cause}"
        return [{"op": job.op, "dtype": job.dtype, "kind": job.kinds[0], "passed": 0, "failures": [failure],
                 "fallbacks": [], "decomposed": []}]  # fmt: skip

    def _send(self, job: Job, *only: str) -> tuple[str, str]:
        """Return the answer to a job and "", or "" and how the process ended."""
        if self.process is None or self.served >= 400:  # programs are kept: memory grows
            self.close()
            self._start()
        assert self.process is not None and self.process.stdin is not None and self.process.stdout is not None
        self.served += 1
        print(job.op, job.dtype, ",".join(job.kinds), job.most, *only, file=self.process.stdin, flush=True)
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            ready = bool(selector.select(self.patience))
        answer = self.process.stdout.readline() if ready else ""
        return answer, "" if answer else self._end(ready)

    def _start(self) -> None:
        command = [sys.executable, "-m", "tests.conformance.worker"]
        parts = [str(_ROOT), str(_ROOT / "python"), os.environ.get("PYTHONPATH", "")]
        env = {"XLA_TIER": "compile"} | os.environ | {"PYTHONPATH": os.pathsep.join(p for p in parts if p)}
        self.errors.seek(0)
        self.errors.truncate()
        self.served = 0
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, env=env, cwd=_ROOT
        )

    def _end(self, ended: bool) -> str:
        """Say why there was no answer."""
        assert self.process is not None
        cause = f"no answer in {self.patience:g} s"
        if ended:
            code = self.process.wait()
            cause = signal.Signals(-code).name if code < 0 else f"exit {code}"
        self.errors.seek(0)
        last = " ".join(self.errors.read()[-600:].split())
        self.close()
        return f"{cause}: {last}"

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def run(jobs: Iterable[Job], processes: int = 1, patience: float = 300) -> Iterator[dict[str, Any]]:
    """Yield the reports of all jobs, as they come."""
    free = [Worker(patience) for _ in range(processes)]

    def ask(job: Job) -> list[dict[str, Any]]:
        worker = free.pop()
        try:
            return worker.ask(job)
        finally:
            free.append(worker)

    try:
        with ThreadPoolExecutor(processes) as pool:
            for reports in pool.map(ask, jobs):
                yield from reports
    finally:
        for worker in free:
            worker.close()
