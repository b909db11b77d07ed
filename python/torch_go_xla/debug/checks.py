"""Checks of values on the device: indices and labels out of range, NaN, infinity.

A program cannot raise for a value. With checks, each op is followed by a test of what it reads and makes, in
gradients and in functions under `torch_go_xla.compile` too. ``TORCH_GO_XLA_CHECK`` turns them on for a process.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from .._core import core as _native

__all__ = ["checking"]


@contextlib.contextmanager
def checking(*what: str) -> Iterator[None]:
    """Check values in a block; a sync, a read and the block's end raise for the first bad one.

    The error names the op and its Python line. An op is named for a NaN or an infinity if none of its operands has
    one. Numbers count as operands: filling a mask with ``-inf`` passes. Of `torch.cond`, scans and loops only the
    results are checked. Every sync waits, and programs take longer.

    Args:
        what: some of ``"indices"``, ``"nan"``, ``"inf"``; all of them if none is given.

    Raises:
        ValueError: for another word.
        IndexError: for an index or a label out of range, as torch raises it on the CPU. Some ops raise RuntimeError.
        RuntimeError: for a NaN or an infinity.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.debug.checks import checking
        >>> with checking("nan"):
        ...     x = torch.zeros(2, 3, device="xla")
        ...     y = x / x
        Traceback (most recent call last):
        RuntimeError: div.Tensor made nan of operands without one, first at [0, 0] of its result f32[2,3]
          recorded by aten::div.Tensor at ...
    """
    _native.open()
    before = _native.setting("TORCH_GO_XLA_CHECK")
    _native.configure("TORCH_GO_XLA_CHECK", ",".join(what) or "1")
    try:
        yield
        _native.sync(-1)
    finally:
        _native.configure("TORCH_GO_XLA_CHECK", before)
