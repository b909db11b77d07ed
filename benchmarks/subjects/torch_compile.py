"""torch.compile on the CPU, with torch's own compiler, of the torch that this project runs on."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

from . import Subject

CACHE = "TORCHINDUCTOR_CACHE_DIR"
CASES = (
    "first-step", "first-step-warm", "compiled-10", "compiled-100", "compiled-1000", "mlp-compiled", "gpt-compiled",
    "resnet-compiled", "gpt-memory", "resnet-memory", "matmul", "fused",
)  # fmt: skip


def subject() -> Subject:
    """Return the subject; needs torch."""
    if CACHE not in os.environ:  # its own: compiled kernels are found again even where torch's caches are off
        os.environ[CACHE] = tempfile.mkdtemp()
        atexit.register(shutil.rmtree, os.environ[CACHE], ignore_errors=True)
    import torch

    return Subject("torch_compile", "cpu", lazy=False, compile=torch.compile, compile_module=torch.compile)
