"""Seams in C: the kernels' library replaces functions of torch's objects, after it has found them to be as expected."""

from __future__ import annotations

import torch

from .._backend import generator, register
from .._backend import shortcuts as _shortcuts
from .._backend.core import native


def generators() -> str:
    """Let ``torch.Generator`` make generators of the device."""
    native().fast.set_generators(torch.Generator, generator.make, generator.NUMBERS)
    return ""


def shortcuts() -> str:
    """Install the shortcuts to the kernels."""
    if _shortcuts.install(register.table(), register.kernels()):
        return ""
    return f"torch {torch.__version__} keeps what a shortcut looks at elsewhere"


def device_guard() -> str:
    """Let C answer for the device guard."""
    if native().fast.answer_for_guard():
        return ""
    return f"the device guard of torch {torch.__version__} does not answer as expected"
