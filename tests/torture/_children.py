"""Children that try many things each, and write down each one before they do.

A death by a signal or a hang is then the fault of the last one. Torch is imported once: children are forked by a
process that has imported it, and open the device on their own.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from . import ROOT, Counts

PROGRAMS = Path(__file__).with_name("programs")
START = 120.0  # seconds that a child may take to open the device


class Journal:
    """What a child has tried: a line before each try, and one after it."""

    def __init__(self, path: Path) -> None:
        self._file: TextIO = path.open("a", buffering=1)

    def begin(self, number: int, text: str) -> None:
        """Say what is tried."""
        print(json.dumps([number, "try", text]), file=self._file)

    def end(self, number: int, kind: str, harm: str = "") -> None:
        """Say what came of it."""
        print(json.dumps([number, kind, harm]), file=self._file)


def child(line: str) -> None:
    """Do what a line asks for, and end."""
    module, options, journal, log = json.loads(line)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(out, 1)
    os.dup2(out, 2)
    status = 1
    try:
        importlib.import_module(module).child(Journal(Path(journal)), **options)
        status = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


class Children:
    """Runs children one after the other."""

    def __init__(self, module: str, patience: float, environment: dict[str, str] | None = None) -> None:
        """Children run ``child(journal, **options)`` of a module; a try may take so many seconds."""
        self._module, self._patience = module, patience
        self._folder = tempfile.TemporaryDirectory(prefix="torture-")
        self._journal, self._log = Path(self._folder.name) / "journal", Path(self._folder.name) / "log"
        env = {**os.environ, **(environment or {})}
        env["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [env.get("PYTHONPATH")])])
        self._forks = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(PROGRAMS / "children.py")],
            **{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1, "env": env},
        )

    def run(self, during: Callable[[], None] = lambda: None, **options: Any) -> tuple[Counts, int | None]:
        """Run a child; return what it has tried, and the number of the last try, None if there was none.

        ``during`` is called again and again meanwhile.
        """
        assert self._forks.stdin is not None and self._forks.stdout is not None
        self._journal.write_text("")
        print(json.dumps([self._module, options, str(self._journal), str(self._log)]), file=self._forks.stdin)
        pid = int(self._forks.stdout.readline())
        end = self._watch(pid, during) or f"exit status {int(self._forks.stdout.readline())}"
        log = self._log.read_text(errors="replace") if self._log.exists() else ""
        log = log if len(log) < 1200 else f"{log[:600]}\n[...]\n{log[-600:]}"  # Go's reason comes before its stacks
        return self._judge(end, log, options)

    def _watch(self, pid: int, during: Callable[[], None]) -> str:
        """Wait for a child as long as it goes on; kill one that does not, and say so."""
        size, since = -1, time.monotonic()
        while not has_ended(pid):
            now = self._journal.stat().st_size
            if now != size:
                size, since = now, time.monotonic()
            if time.monotonic() - since > (self._patience if size else START):
                os.kill(pid, signal.SIGKILL)
                assert self._forks.stdout is not None
                self._forks.stdout.readline()
                return f"did not end in {self._patience:.0f} s"
            during()
            time.sleep(0.02)
        return ""

    def _judge(self, end: str, log: str, options: dict[str, Any]) -> tuple[Counts, int | None]:
        counts, last, open_try = Counts(), None, ""
        for number, kind, text in map(json.loads, self._journal.read_text(errors="replace").splitlines()):
            if kind == "try":
                counts.tries += 1
                last, open_try = number, f"number {number}: {text}"
            else:
                counts.judge(text and f"{open_try}: {text}", kind)
                open_try = ""
        if open_try:
            counts.judge(f"{open_try}: {end}; {log}")
        elif end != "exit status 0":
            counts.judge(f"{self._module} {options}, after number {last}: {end}; {log}")
        return counts, last

    def close(self) -> None:
        """End the process that forks."""
        assert self._forks.stdin is not None
        self._forks.stdin.close()
        self._forks.wait(60)
        self._folder.cleanup()


def has_ended(pid: int) -> bool:
    """Tell whether a process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (OSError, IndexError):
        return True


def in_batches(children: Children, seed: int, seconds: float, most: int, batch: int, **options: Any) -> Counts:
    """Run children with ``first`` and ``count`` and ``until``, a time of `time.monotonic`, until all is tried."""
    counts, until, at = Counts(), time.monotonic() + seconds, seed * 1_000_000
    stop, failures = at + most, 0
    while at < stop and (time.monotonic() < until or at == seed * 1_000_000) and failures < 20:
        found, last = children.run(first=at, count=min(batch, stop - at), until=until, **options)
        counts.add(found)
        failures += bool(found.lost)
        at = at + 1 if last is None else last + 1
    return counts
