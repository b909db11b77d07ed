"""What takes a device's memory: its figures, and the largest arrays with the lines that made them.

In a notebook, ``memory.of()`` as the last line of a cell shows a table. An `OutOfMemoryError` has the same as a note.
"""

from __future__ import annotations

from .._backend.memory_usage import Array, Memory, of

__all__ = ["Array", "Memory", "of"]
