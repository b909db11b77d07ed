"""torch_xla, in a Python of its own: it needs a torch of its own version."""

from __future__ import annotations

from . import Subject

PYTHON = "BENCH_TORCH_XLA_PYTHON"
IMPORT = "import torch, torch_xla"


def subject() -> Subject:
    """Return the subject; needs torch_xla."""
    import torch_xla
    import torch_xla.core.xla_model as xm

    return Subject("torch_xla", str(torch_xla.device()), sync=torch_xla.sync, wait=xm.wait_device_ops, save=xm.save)
