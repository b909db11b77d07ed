"""The memory functions of ``torch.xla``, by the names of ``torch.cuda``; `torch.accelerator` has the same.

"Allocated" is what the arrays of a device take by their shapes, as programs and transfers of this process make them.
The peak includes what a program computes on the way. "Reserved" is what the plugin's allocator says, if it does.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from .core import device_index, native


def memory_stats(device: Any = None) -> OrderedDict[str, int]:
    """Return the figures of a device: bytes and arrays, now, at most, and in all.

    Args:
        device: a device or an index; None for the current one.

    Returns:
        For ``allocated_bytes.all``, ``allocation.all`` (arrays), and ``reserved_bytes.all`` where the plugin tells: the
        keys ``….current`` and ``….peak``, and of the first two ``….allocated`` and ``….freed``. ``limit_bytes`` is what
        the plugin may use.

    Raises:
        RuntimeError: there is no such device.

    Example:
        >>> import torch, torch_go_xla
        >>> x = torch.ones(1000, device="xla")
        >>> torch_go_xla.sync(wait=True)
        >>> torch.xla.memory_stats()["allocated_bytes.all.current"] >= 4000
        True
    """
    return OrderedDict(sorted(native().memory_stats(device_index(device)).items()))


def memory_allocated(device: Any = None) -> int:
    """Return the bytes that the arrays of a device take now."""
    return memory_stats(device)["allocated_bytes.all.current"]


def max_memory_allocated(device: Any = None) -> int:
    """Return the most bytes that the arrays of a device, and what programs compute on the way, have taken.

    `reset_peak_memory_stats` begins again.
    """
    return memory_stats(device)["allocated_bytes.all.peak"]


def memory_reserved(device: Any = None) -> int:
    """Return the bytes that the plugin's allocator uses; 0 if the plugin does not tell."""
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device: Any = None) -> int:
    """Return the most bytes that the plugin's allocator has used; 0 if the plugin does not tell."""
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


def reset_peak_memory_stats(device: Any = None) -> None:
    """Make what the arrays of a device take now their peak. No plugin lets its own peak be reset."""
    native().reset_memory_stats(device_index(device), True)


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Forget what was allocated and freed on a device in all."""
    native().reset_memory_stats(device_index(device), False)


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Return the free and all bytes of a device, as its plugin tells; RuntimeError if it does not."""
    figures = memory_stats(device)
    if not figures.get("limit_bytes"):
        raise RuntimeError(f"xla:{device_index(device)}: the plugin does not tell how much memory the device has")
    limit = figures["limit_bytes"]
    return max(limit - figures["reserved_bytes.all.current"], 0), limit


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """Return the figures of a device and its largest arrays as text; `torch_go_xla.debug.memory` has them as objects.

    Args:
        device: a device or an index; None for the current one.
        abbreviated: without the arrays.
    """
    from ..debug import memory

    now = memory.of(device)
    return now.figures() if abbreviated else str(now)
