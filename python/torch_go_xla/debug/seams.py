"""What this process has changed in torch, and what has no place in its torch::

    python -m torch_go_xla.debug.seams

That is a new process. In yours, print ``torch_go_xla.debug.seams.report()``: seams of meshes are applied with the first
mesh.

A seam is an object of torch that the package replaces where torch has no API for a device. The environment variable
TORCH_GO_XLA_SEAMS leaves out those that are not essential: ``TORCH_GO_XLA_SEAMS=-shortcuts,-accelerator``.
"""

from __future__ import annotations

import textwrap

import torch

from .._seams import Record, Seam, Target, records

__all__ = ["Record", "Seam", "Target", "records", "report"]


def report() -> str:
    """Return the table as text: of each seam what it replaces, what became of it here, why, what is lost without it.

    Example:
        >>> from torch_go_xla.debug import seams
        >>> print(seams.report())
        torch ...
    """
    parts = [f"torch {torch.__version__}"]
    for r in records():
        state = f"{r.state}: {r.why}" if r.why else r.state
        lines = [f"{r.seam.name} ({state})", *(f"    {t.path}" for t in r.seam.targets)]
        lines += _wrapped("because  ", r.seam.reason) + _wrapped("without  ", r.seam.loss)
        lines += ["    essential"] if r.seam.essential else []
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _wrapped(label: str, text: str) -> list[str]:
    indent = " " * (4 + len(label))
    return textwrap.wrap(text, 100, initial_indent=f"    {label}", subsequent_indent=indent)


if __name__ == "__main__":
    print(report())
