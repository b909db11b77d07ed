"""Exceptions of the device, and their numbers in the interface with the core (package errs)."""

from __future__ import annotations

import builtins
import contextlib

from torch.linalg import LinAlgError as LinAlgError  # type: ignore[attr-defined]

from .._vocabulary import ERROR_CLASSES


class XlaError(RuntimeError):
    """The device or its compiler failed."""


class OutOfMemoryError(XlaError):
    """The device has no memory left. A note of the exception names the largest arrays on it."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        from .usage import memory_summary

        with contextlib.suppress(Exception):  # the error itself must not get lost
            self.add_note(memory_summary())


class CompileError(XlaError):
    """The compiler refused a program."""


class DonatedBufferError(XlaError):
    """A tensor was read whose memory a program has taken over."""


class NotLoweredError(NotImplementedError):
    """An op, or this use of it, has no lowering."""


class ForkedProcessError(RuntimeError):
    """The device was used in a process forked from the one that had started it."""


# By number; a number without a class is a RuntimeError.
BY_KIND: tuple[type[BaseException], ...] = tuple(
    globals()[name] if name in globals() else getattr(builtins, name) for name in ERROR_CLASSES
)
