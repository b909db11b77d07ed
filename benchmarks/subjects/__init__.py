"""What is measured: one module each, with a function ``subject`` that returns its `Subject`.

A peer is a file here. ``PYTHON`` in it names the environment variable that holds the peer's Python, which needs its
packages and nothing of this project; a peer whose variable is not set is left out. A peer with other tensors than
torch's gives its own cases by name in ``CASES``.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# What all ratios are relative to.
REFERENCE = "torch"


def _nothing() -> None:
    return None


@dataclass
class Subject:
    """How a case ends a step, waits and saves."""

    name: str
    device: str
    sync: Callable[[], Any] = _nothing
    wait: Callable[[], Any] = _nothing
    save: Callable[[Any, str], Any] | None = None


def load(name: str) -> Any:
    """Return the module of a subject; ModuleNotFoundError if there is none."""
    return importlib.import_module(f"{__name__}.{name}")


def pythons() -> dict[str, str]:
    """Return the Python of every subject that can run here, the reference first."""
    found = {REFERENCE: sys.executable}
    for module in pkgutil.iter_modules(__path__):
        variable = getattr(load(module.name), "PYTHON", None)
        python = sys.executable if variable is None else os.environ.get(variable)
        if python:
            found[module.name] = python
    return found
