"""This project."""

from __future__ import annotations

from . import Subject

IMPORT = "import torch, torch_go_xla"
CACHE = "XLA_PERSISTENT_CACHE_PATH"
ENVIRONMENT = {"XLA_TIER": "compile"}  # steady steps are measured: `auto` would compile them in the middle


def subject() -> Subject:
    """Return the subject; needs torch and torch_go_xla."""
    import torch_go_xla
    import torch_go_xla.core.xla_model as xm

    return Subject(
        "torch_go_xla", "xla", sync=torch_go_xla.sync, wait=lambda *_: xm.wait_device_ops(), save=xm.save,
        compile=torch_go_xla.compile, compile_step=torch_go_xla.compile,
    )  # fmt: skip
