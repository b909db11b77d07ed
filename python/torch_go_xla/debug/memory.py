"""What takes a device's memory: its figures, and the largest arrays with the lines that made them.

In a notebook, ``memory.of()`` as the last line of a cell shows a table. An `OutOfMemoryError` has the same as a note.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

from .._backend.core import device_index
from .._core import core as _native

__all__ = ["Array", "Memory", "of"]


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
        figures = "".join(f"<tr><th>{name}</th><td>{_size(n)}</td></tr>" for name, n in self._figures())
        arrays = "".join(
            f"<tr><td>{_size(a.bytes)}</td><td>{escape(a.shape)}</td><td>{escape(_made(a))}</td></tr>"
            for a in self.largest
        )
        head = "<tr><th>size</th><th>array</th><th>made by</th></tr>"
        return f"<b>memory of {escape(self.device)}</b><table>{figures}</table><table>{head}{arrays}</table>"


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
    arrays = tuple(Array(**a) for a in _native.largest_arrays(index, largest))
    return Memory(f"xla:{index}", _native.memory_stats(index), arrays)


def _size(n: int) -> str:
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if n >= unit:
            return f"{n / unit:.1f} {name}"
    return f"{n} B"


def _made(a: Array) -> str:
    return " at ".join(part for part in (a.op or "a transfer", a.line) if part)
