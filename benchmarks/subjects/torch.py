"""torch on the CPU, op by op: the reference."""

from __future__ import annotations

from . import Subject

IMPORT = "import torch"


def subject() -> Subject:
    """Return the subject; needs torch."""
    import torch

    return Subject("torch", "cpu", save=torch.save)
