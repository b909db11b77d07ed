"""PyTorch on XLA: lazy tensors, whole-graph compilation, any PJRT device.

Importing the package makes ``xla`` a device of torch::

    import torch, torch_go_xla
    x = torch.randn(2, 3, device="xla")
    y = (x @ x.T).relu()      # recorded
    torch_go_xla.sync()       # runs, while Python goes on
    print(y)

The names are those of ``torch_xla``. The device opens with the first tensor, not at the import.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from . import _backend, _seams
from ._backend import composed as _composed  # noqa: F401 (its modules add their kernels)
from ._core import core as _native
from ._version import __version__

_backend.install(_native)
_native.fast.set_open(_native.open)
_seams.apply("import")

from . import _XLAC, _step  # noqa: E402 (need the device installed)
from ._backend.errors import (  # noqa: E402
    CompileError,
    DonatedBufferError,
    ForkedProcessError,
    NotLoweredError,
    OutOfMemoryError,
    XlaError,
)
from ._compile import compile  # noqa: E402
from ._launch import launch  # noqa: E402
from ._submodules import submodules  # noqa: E402
from .custom_ops import custom_op, register_ffi_target, register_lowering  # noqa: E402

if torch.distributed.is_available():
    from .distributed import xla_backend

    xla_backend.register()

__all__ = [
    "_XLAC",
    "CompileError",
    "DonatedBufferError",
    "ForkedProcessError",
    "NotLoweredError",
    "OutOfMemoryError",
    "XlaError",
    "__version__",
    "compile",
    "custom_op",
    "device",
    "device_count",
    "devices",
    "info",
    "launch",
    "live_bytes",
    "manual_seed",
    "real_devices",
    "register_ffi_target",
    "register_lowering",
    "step",
    "sync",
]

__getattr__ = submodules(__name__)


def device(index: int | None = None) -> torch.device:
    """Return the xla device of an index.

    Args:
        index: from 0 to `device_count` - 1; by default that of the current device.

    Raises:
        RuntimeError: this process does not have the device.

    Example:
        >>> import torch, torch_go_xla
        >>> torch.ones(2, device=torch_go_xla.device()).device
        device(type='xla', index=0)
    """
    if index is None:
        return torch.device("xla", _native.fast.current_device())
    count = device_count()
    if not 0 <= index < count:
        raise RuntimeError(f"xla:{index}: invalid device ordinal; this process has {count} xla device(s)")
    return torch.device("xla", index)


def devices() -> list[torch.device]:
    """Return all devices of this process, in the order of their indices.

    Example:
        >>> import torch_go_xla
        >>> torch_go_xla.devices()
        [device(type='xla', index=0)]
    """
    return [torch.device("xla", i) for i in range(device_count())]


def device_count() -> int:
    """Return the number of devices of this process.

    Example:
        >>> import torch_go_xla
        >>> torch_go_xla.device_count()
        1
    """
    return _native.device_count()


def info() -> dict[str, Any]:
    """Return versions, variables, plugins, devices and cache, as `torch_go_xla.doctor` prints them.

    The device of ``PJRT_DEVICE`` is opened. What cannot be found or opened is said in its place; nothing is raised.

    Returns:
        ``versions``, ``environment``, ``plugins`` and ``cache``: texts by name; ``devices``: a list of texts, or the
        error's text.

    Example:
        >>> import torch_go_xla
        >>> torch_go_xla.info()["devices"]
        ['xla:0 is CPU:0, ... of ... GiB in use']
    """
    from ._info import info

    return info()


def real_devices() -> list[str]:
    """Return the hardware's names of the devices, such as ``CPU:0``.

    Example:
        >>> import torch_go_xla
        >>> torch_go_xla.real_devices()
        ['CPU:0']
    """
    from ._info import real_devices

    return real_devices()


def live_bytes() -> int:
    """Return the bytes that live tensors take on the devices, by their shapes.

    Example:
        >>> import torch, torch_go_xla
        >>> before = torch_go_xla.live_bytes()
        >>> x = torch.ones(256, device="xla")  # float32
        >>> torch_go_xla.sync()
        >>> torch_go_xla.live_bytes() - before
        1024
    """
    _native.live_storages()  # frees what died since the last op
    return _native.live_bytes()


def sync(wait: bool = False, reset_scope: bool = True) -> None:
    """Compute everything that is recorded, on every device; the end of a step.

    Then what `xm.add_step_closure` was given is called.

    Args:
        wait: return when the programs are done, not when they are on their way.
        reset_scope: accepted for torch_xla's programs.

    Raises:
        XlaError: with ``wait``, a program has failed. It is a CompileError if the compiler refuses the program, an
            OutOfMemoryError if it needs more memory than there is. Without ``wait``, reading a result raises it.

    Example:
        >>> import torch, torch_go_xla
        >>> x = torch.ones(2, device="xla") + 1  # recorded
        >>> torch_go_xla.sync()  # runs, while Python goes on
        >>> x.tolist()
        [2.0, 2.0]
    """
    _step.end(wait)


@contextlib.contextmanager
def step() -> Iterator[None]:
    """Sync before and after the block.

    Example:
        >>> import torch, torch_go_xla
        >>> with torch_go_xla.step():
        ...     x = torch.ones(2, device="xla") + 1
        >>> x.tolist()
        [2.0, 2.0]
    """
    sync()
    try:
        yield
    finally:
        sync()


def manual_seed(seed: int, device: Any = None) -> None:
    """Seed the random numbers of devices.

    Args:
        seed: any integer of 64 bits.
        device: a device, its name or index; all devices of this process by default.

    Example:
        >>> import torch, torch_go_xla
        >>> torch_go_xla.manual_seed(1)
        >>> x = torch.rand(2, device="xla")
        >>> torch_go_xla.manual_seed(1)
        >>> torch.equal(x, torch.rand(2, device="xla"))
        True
    """
    if device is None:
        for index in range(device_count()):
            _native.manual_seed(index, seed)
    else:
        _native.manual_seed(_backend.core.device_index(device), seed)
