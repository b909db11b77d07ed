"""What the tests share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest


@dataclass
class Outcome:
    """How a Python process ended."""

    code: int
    out: str
    err: str


Runner = Callable[..., Outcome]


@pytest.fixture
def python() -> Runner:
    """Run a program in a process of its own, with changes to the environment; None takes a variable out."""

    def run(program: str, timeout: float = 180, **env: str | None) -> Outcome:
        merged = {k: v for k, v in {**os.environ, **env}.items() if v is not None}
        done = subprocess.run(
            [sys.executable, "-c", program], env=merged, capture_output=True, text=True, timeout=timeout, check=False
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def ok(python: Runner) -> Callable[..., str]:
    """Run a program that must end well; returns what it printed."""

    def run(program: str, **options: str | None) -> str:
        done = python(program, **options)
        assert done.code == 0, f"exit {done.code}\n{done.out}\n{done.err}"
        return done.out

    return run
