"""What is measured: one module each, with a function ``subject`` that returns its `Subject`.

A peer is a file here; importing it needs nothing of the peer's. What it may say:

* ``IMPORT``: the program that imports its package.
* ``REQUIRES``: the packages of a peer that has a Python of its own, which `benchmarks.peers` installs.
* ``VERSIONS``: the versions of Python that have them, the best first.
* ``CASES``: the names of the cases that it takes part in, instead of all.
* ``OWN``: its own functions for some cases, by name.
* ``OPS``: its own cases of `benchmarks.op_speed`, by name, instead of torch's.
* ``ENVIRONMENT``: variables of its process.
* ``CACHE``: the variable that names the folder where it keeps compiled programs.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# What all ratios are relative to.
REFERENCE = "torch"

# What the figures of the others are there for.
OURS = "torch_go_xla"


def _nothing(*_: Any) -> None:
    return None


def _same(function: Any) -> Any:
    return function


@dataclass
class Subject:
    """How a case ends a step, waits, saves and compiles."""

    name: str
    device: str
    sync: Callable[[], Any] = _nothing
    wait: Callable[..., Any] = _nothing  # for everything on the device, or at least for the tensors given
    save: Callable[[Any, str], Any] | None = None
    lazy: bool = True  # one program computes a step (or one op, eagerly) without being asked for
    compile: Callable[[Any], Any] = _same  # makes a function of tensors one program
    compile_module: Callable[[Any], Any] = _same  # what is done to the model of a training step, and
    compile_step: Callable[[Any], Any] = _same  # to the step, so that it is recorded no more


def load(name: str) -> Any:
    """Return the module of a subject; ModuleNotFoundError if there is none."""
    return importlib.import_module(f"{__name__}.{name}")


def names() -> list[str]:
    """Return all subjects, the reference first."""
    return sorted((m.name for m in pkgutil.iter_modules(__path__)), key=lambda name: (name != REFERENCE, name))


def takes(name: str, case: str) -> bool:
    """Tell whether a subject takes part in a case."""
    module = load(name)
    return hasattr(module, "IMPORT") if case == "import" else case in getattr(module, "CASES", (case,))


def python(name: str) -> str:
    """Return the Python of a subject; LookupError says why there is none."""
    from .. import peers

    return peers.python(name) if hasattr(load(name), "REQUIRES") else sys.executable
