"""The memory functions of ``torch.xla``, by the names of ``torch.cuda``; `torch.accelerator` has the same.

"Allocated" is what the arrays of a device take by their shapes, as programs and transfers of this process make them.
The peak includes what a program computes on the way. "Reserved" is what the plugin's allocator says, if it does.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from . import html
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

    now = of(device)
    return now.figures() if abbreviated else str(now)


@dataclass(frozen=True)
class Array:
    """The array of the tensors that share a storage.

    Attributes:
        shape: its type and sizes, "f32[8,128]".
        bytes: what it takes.
        op: the op that computed it; "" for a transfer from the host.
        line: "file:line" of the Python code that recorded it; "" where that is not known.

    Example:
        >>> from torch_go_xla.debug.memory import Array
        >>> Array("f32[8,128]", 4096, "aten::add.Tensor", "train.py:31").bytes
        4096
    """

    shape: str
    bytes: int
    op: str
    line: str


@dataclass(frozen=True)
class Memory:
    """The memory of a device at one moment.

    Attributes:
        device: "xla:0".
        stats: see `torch.xla.memory_stats`.
        largest: its largest arrays, the largest first.

    Example:
        >>> from torch_go_xla.debug.memory import Array, Memory
        >>> array = Array("f32[8,128]", 4096, "aten::add.Tensor", "train.py:31")
        >>> moment = Memory("xla:0", {"allocated_bytes.all.current": 4096}, (array,))
        >>> print(moment.figures())
        memory of xla:0
          arrays                4.0 KiB
    """

    device: str
    stats: dict[str, int]
    largest: tuple[Array, ...]

    def figures(self) -> str:
        """Return the figures as lines of text."""
        return "\n".join([f"memory of {self.device}", *(f"  {name:<22}{_size(n)}" for name, n in self._figures())])

    def _figures(self) -> list[tuple[str, int]]:
        names = {
            "allocated_bytes.all.current": "arrays",
            "allocated_bytes.all.peak": "arrays, at most",
            "reserved_bytes.all.current": "allocator",
            "reserved_bytes.all.peak": "allocator, at most",
            "limit_bytes": "limit",
        }
        return [(name, self.stats[key]) for key, name in names.items() if key in self.stats]

    def __str__(self) -> str:
        if not self.largest:
            return self.figures()
        rows = [f"  {_size(a.bytes):>10}  {a.shape}  {_made(a)}".rstrip() for a in self.largest]
        return "\n".join([self.figures(), "the largest arrays", *rows])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        figures = [(name, _size(n)) for name, n in self._figures()]
        arrays = [(_size(a.bytes), a.shape, _made(a)) for a in self.largest]
        return html.table(figures, caption=f"memory of {self.device}") + html.table(
            arrays, ("size", "array", "made by")
        )


def of(device: Any = None, largest: int = 10) -> Memory:
    """Return the memory of a device.

    Args:
        device: a device or an index; None for the current one.
        largest: how many arrays are named. Values that are recorded and not computed yet take no memory.

    Returns:
        The figures and the arrays.

    Raises:
        RuntimeError: there is no such device.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.debug import memory
        >>> weights = torch.zeros(1000, 1000, device="xla") + 1
        >>> torch_go_xla.sync(wait=True)
        >>> memory.of().largest[0].shape
        'f32[1000,1000]'
    """
    index = device_index(device)
    arrays = tuple(Array(**a) for a in native().largest_arrays(index, largest))
    return Memory(f"xla:{index}", native().memory_stats(index), arrays)


def _size(n: int) -> str:
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if n >= unit:
            return f"{n / unit:.1f} {name}"
    return f"{n} B"


def _made(a: Array) -> str:
    return " at ".join(part for part in (a.op or "a transfer", a.line) if part)
