"""Processes for tests that need one of their own."""

from __future__ import annotations

import atexit
import functools
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = Path(__file__).with_name("programs")
_SERVER = Path(__file__).with_name("forkserver.py")


@dataclass
class Outcome:
    """How a process ended, and what it wrote."""

    code: int
    out: str
    err: str


@functools.cache
def _address() -> str:
    """Start the server of forks, which ends with this process; returns where it listens."""
    folder = tempfile.TemporaryDirectory(prefix="forks-")
    address = os.path.join(folder.name, "socket")
    pipe = subprocess.PIPE
    server = subprocess.Popen(
        [sys.executable, _SERVER, "serve", address], stdin=pipe, stdout=pipe, start_new_session=True
    )
    assert server.stdout is not None and server.stdout.readline() == b"ready\n"
    atexit.register(folder.cleanup)
    atexit.register(server.communicate)  # closes its standard input
    return address


def environment() -> dict[str, str]:
    """Return the environment in which a Python of its own finds what programs share."""
    shared = filter(None, (str(PROGRAMS), os.environ.get("PYTHONPATH")))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(shared)}


def command(program: str, *arguments: str | Path) -> list[str]:
    """Return the command that runs a program, with arguments, as a process of its own with torch imported.

    The program is a file of tests/programs, or a text of three lines at most. The process that the command starts is a
    stand-in: it ends as the program does, the program ends with it, and gets the signals that ask for an end, but its
    id is another. A test of what an import does uses `sys.executable`.
    """
    what = [str(PROGRAMS / program)] if program.endswith(".py") else ["-c", program]
    return [sys.executable, "-I", "-S", str(_SERVER), "run", _address(), *what, *map(str, arguments)]


def run(program: str, *arguments: str | Path, timeout: float = 300, **env: str | None) -> Outcome:
    """Run a program in a process of its own, with changes to the environment; None takes a variable out."""
    merged = {k: v for k, v in {**os.environ, **env}.items() if v is not None}
    started = command(program, *arguments)
    done = subprocess.run(started, env=merged, capture_output=True, text=True, timeout=timeout, check=False)
    return Outcome(done.returncode, done.stdout, done.stderr)
