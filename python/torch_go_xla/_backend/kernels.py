"""Kernels that are Python functions: a module adds its own as it is imported, `register` gives all to torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Kernel = Callable[..., Any]

# Imports fill the tables; nothing changes them later.

# By overload, "add.Tensor": what the dispatcher calls for the device, without a row or in its place.
KERNELS: dict[str, Kernel] = {}

# By overload: what the dispatcher calls where an operand is a sparse COO tensor of the device.
SPARSE: dict[str, Kernel] = {}

# The same where an operand is a compressed one: CSR, CSC, BSR or BSC.
SPARSE_COMPRESSED: dict[str, Kernel] = {}

# By overload: what the dispatcher calls for the device both above autograd and below it.
DIFFERENTIABLE: dict[str, Kernel] = {}

# By overload of a row: makes the kernel that the dispatcher calls of the row's own.
AROUND_ROWS: dict[str, Callable[[Kernel], Kernel]] = {}

# By overload of a row: what computes it where the size of its result depends on values, or the result is sparse.
UNSIZED: dict[str, Kernel] = {}

# By name of a higher-order op: its kernel for the device; where it raises NotLoweredError torch's own runs.
HIGHER_ORDER: dict[str, Kernel] = {}


def add(table: dict[str, Kernel], entries: Mapping[str, Kernel]) -> None:
    """Add kernels to one of the tables; ValueError for an overload that has one."""
    if twice := table.keys() & entries.keys():
        raise ValueError(f"two kernels for {', '.join(sorted(twice))}")
    table.update(entries)
