"""torch_xla, in a Python of its own: it needs a torch of its own version."""

from __future__ import annotations

from . import Subject

VERSIONS = ("3.11", "3.12")
REQUIRES = ("torch==2.9.0", "torch_xla==2.9.0", "numpy")
IMPORT = "import torch, torch_xla"
CACHE = "XLA_PERSISTENT_CACHE_PATH"


def subject() -> Subject:
    """Return the subject; needs torch_xla."""
    import torch_xla
    import torch_xla.core.xla_model as xm

    return Subject(
        "torch_xla", str(torch_xla.device()), sync=torch_xla.sync, wait=lambda *_: xm.wait_device_ops(), save=xm.save,
        compile=torch_xla.compile, compile_step=torch_xla.compile,
    )  # fmt: skip
