"""What modules of the device share: `native()`, the process's core; numbers of types; `is_xla`."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from .._vocabulary import SCALAR_TYPES

if TYPE_CHECKING:
    from .._core import NativeCore


_core: NativeCore | None = None  # set once, by `install`


def use(core: NativeCore) -> None:
    """Set the core of the process."""
    global _core
    _core = core


_recording = threading.local()  # .on: this thread is within `recording`


@contextlib.contextmanager
def recording() -> Iterator[None]:
    """Within it a function is recorded that runs later, or again and again: kernels read no values to check them."""
    outer, _recording.on = is_recording(), True
    try:
        yield
    finally:
        _recording.on = outer


def is_recording() -> bool:
    """Tell whether this thread is within `recording`."""
    return getattr(_recording, "on", False)


def native() -> NativeCore:
    """Return the core of the process."""
    if _core is None:
        raise RuntimeError("torch_go_xla has not been installed in this process")
    return _core


# c10::ScalarType numbers of the types that the device has tensors of.
SCALAR_TYPE: dict[torch.dtype, int] = {getattr(torch, name): number for name, number in SCALAR_TYPES.items()}

# The library of torch's CPU kernels and of its stable C interface, which the process has loaded.
TORCH_LIBRARY = os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so")

# The dispatch keys by which it looks after gradients and the versions of tensors, as bits.
GRADIENT_KEYS: int = (
    torch._C.DispatchKeySet(torch._C.DispatchKey.AutogradFunctionality)
    | torch._C.DispatchKeySet(torch._C.DispatchKey.ADInplaceOrView)
).raw_repr()

# Objects that stand for a number in a schema: dtypes, layouts (c10::Layout), memory formats (c10::MemoryFormat).
ENUMS: dict[Any, int] = {
    **SCALAR_TYPE,
    torch.strided: 0,
    torch.contiguous_format: 0,
    torch.preserve_format: 1,
    torch.channels_last: 2,
    torch.channels_last_3d: 3,
}


def scalar_type(dtype: torch.dtype) -> int:
    """Return the number of a dtype; TypeError if the device has no tensors of it."""
    number = SCALAR_TYPE.get(dtype)
    if number is None:
        raise TypeError(f"xla tensors cannot have dtype {dtype}")
    return number


def device_index(device: Any) -> int:
    """Return the index of a device: None is the current one; a number, a string or a torch.device."""
    if device is None:
        return int(native().fast.current_device())
    if isinstance(device, int):
        return device
    device = torch.device(device)
    if device.type != "xla":
        raise ValueError(f"expected an xla device, got {device}")
    return int(native().fast.current_device()) if device.index is None else int(device.index)


def is_xla(x: object) -> bool:
    """Tell whether x is a tensor on the device."""
    return isinstance(x, torch.Tensor) and x.device.type == "xla"
