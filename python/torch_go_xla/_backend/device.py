"""Makes ``xla`` a device of torch: PrivateUse1 renamed, its guard, its hooks and its module.

Torch gives out-of-tree devices one dispatch key, PrivateUse1, and lets Python register what C++ backends
register. ``xla`` is also a device of its own in torch's C++ table; a torch that looks there first would
not give us the name, so `check_torch` tries it.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

from . import xla_module
from .core import native

WORKS_WITH = "torch_go_xla works with torch 2.13 and newer; 2.15 is the one it is tested with"


def torch_version() -> tuple[int, int]:
    """Return the minor release of this torch, (2, 15)."""
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)


def check_torch() -> None:
    """Raise ImportError where this torch, or another backend in the process, leaves no room for the device."""
    if "torch_xla" in sys.modules:
        raise ImportError("torch_xla is loaded in this process; it and torch_go_xla cannot share the device name xla")
    taken = torch._C._get_privateuse1_backend_name()
    if taken not in ("privateuseone", "xla"):
        raise ImportError(f"another backend, {taken!r}, has taken torch's PrivateUse1 key in this process")
    wanted = ("register_python_privateuseone_hook", "register_python_privateuseone_device_guard")
    acc = getattr(torch._C, "_acc", None)
    if not all(hasattr(acc, name) for name in wanted):
        raise ImportError(f"torch {torch.__version__} has no Python backends. {WORKS_WITH}")


def claim_device() -> None:
    """Take the name and the dispatch key."""
    torch.utils.rename_privateuse1_backend("xla")
    if torch.device("xla:0") != torch.device("privateuseone:0"):
        raise ImportError(f"torch {torch.__version__} does not let a Python backend be named xla. {WORKS_WITH}")
    torch._register_device_module("xla", xla_module)
    _register_hooks()


def _register_hooks() -> None:
    acc: Any = torch._C._acc

    class Hooks(acc.PrivateUse1Hooks):  # type: ignore[misc]
        def is_available(self) -> bool:
            return True

        def is_built(self) -> bool:
            return True

        def has_primary_context(self, index: int) -> bool:
            return True

    device_type: Any = torch._C._autograd.DeviceType

    class Carrier(device_type):  # type: ignore[misc]
        """A device type that can have attributes."""

    class Guard(acc.DeviceGuard):  # type: ignore[misc]
        # Autograd asks for the type more than once per recorded op, and does not pass self to a function in C.
        type_ = native().fast.device_type(device_type.PrivateUse1, Carrier)

    acc.register_python_privateuseone_hook(Hooks())
    acc.register_python_privateuseone_device_guard(Guard())


def device_of(device: Any) -> torch.device:
    """Return the device that None (the current one), a number or what torch takes for a device stands for."""
    if device is None:
        return torch.device("xla", xla_module.current_device())
    return torch.device("xla", device) if isinstance(device, int) else torch.device(device)
