"""The device ``xla`` of torch.

`install` turns PrivateUse1 into ``xla`` and registers kernels that record every op with the Go core.
Tensors are plain ``torch.Tensor``s: the address of a storage is the handle of a core storage, so views,
versions, hooks and autograd are torch's own.

The package uses torch and the module _goxlafast; it imports nothing else of torch_go_xla. What it needs of
the core is `_core.NativeCore`. Ops that are composed of others lie in `composed`, which is imported before
`install` and adds its kernels to `kernels`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import torch

from . import (
    core,
    device,
    mixed,
    multiprocessing_reductions,
    optim,
    register,
    rows,
    storage,
    storage_kernels,
)
from .core import native
from .errors import BY_KIND

if TYPE_CHECKING:
    from .._core import NativeCore

__all__ = ["install"]

_installed = False  # set once, by the import of the package


def _setup_kernels(fast: object) -> None:
    fast.setup(  # type: ignore[attr-defined]
        core.TORCH_LIBRARY,
        torch._C.TensorBase,
        torch._C._from_dlpack,
        storage_kernels.resize_out,
        mixed.fall_back,
        BY_KIND,
        dict(core.ENUMS),
        storage_kernels.empty,
        storage_kernels.empty_strided,
        torch._C._increment_version,
        torch._C._get_deterministic_algorithms,
    )
    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    skipped = tuple(os.path.join(d, "") for d in (os.path.dirname(torch.__file__), ours))
    fast.set_skipped_directories(skipped)  # type: ignore[attr-defined]


def install(implementation: NativeCore) -> None:
    """Make ``xla`` a device of this process. A second call does nothing.

    ImportError says why a torch, or another backend in the process, makes that impossible.
    """
    global _installed
    if _installed:
        return
    device.check_torch()
    core.use(implementation)
    try:
        _setup_kernels(native().fast)
    except ImportError as e:
        raise ImportError(f"torch {torch.__version__}: {e}. {device.WORKS_WITH}") from None
    device.claim_device()
    register.register(rows.read(native().op_table()))
    storage.register()
    optim.register()
    multiprocessing_reductions.install()
    _installed = True
