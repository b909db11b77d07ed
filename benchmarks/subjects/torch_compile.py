"""torch.compile on the CPU, with torch's own compiler, of the torch that this project runs on."""

from __future__ import annotations

import os

from . import Subject

CACHE = "TORCHINDUCTOR_CACHE_DIR"
CASES = (
    "first-step", "first-step-warm", "compiled-10", "compiled-100", "compiled-1000", "mlp-compiled", "gpt-compiled",
    "resnet-compiled", "gpt-memory", "resnet-memory", "matmul", "fused",
)  # fmt: skip


def subject() -> Subject:
    """Return the subject; needs torch."""
    import torch
    import torch._inductor.config

    if CACHE not in os.environ:
        torch._inductor.config.force_disable_caches = True
    return Subject("torch_compile", "cpu", lazy=False, compile=torch.compile, compile_module=torch.compile)
