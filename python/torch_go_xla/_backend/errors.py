"""Exceptions of the device, and their numbers in the interface with the core (package errs)."""

from __future__ import annotations

import builtins
import contextlib

from torch.linalg import LinAlgError as LinAlgError  # type: ignore[attr-defined]

from .._vocabulary import ERROR_CLASSES


class XlaError(RuntimeError):
    """The device or its compiler failed. The message names the op, its Python line and the plugin's reason.

    Example:
        >>> import torch_go_xla
        >>> issubclass(torch_go_xla.OutOfMemoryError, torch_go_xla.XlaError)
        True
    """


class OutOfMemoryError(XlaError):
    """The device has no memory left. A note of the exception names the largest arrays on it.

    Args:
        args: as for ``RuntimeError``.

    Example:
        >>> import torch_go_xla
        >>> try:
        ...     torch_go_xla.sync()
        ... except torch_go_xla.OutOfMemoryError:
        ...     print("use a smaller batch")
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        from .memory_usage import memory_summary

        with contextlib.suppress(Exception):  # the error itself must not get lost
            self.add_note(memory_summary())


class CompileError(XlaError):
    """The compiler refused a program. It is raised where a result is read, or waited for.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.experimental.stablehlo_custom_call import stablehlo_custom_call
        >>> x = stablehlo_custom_call([torch.ones(2, device="xla")], "absent", [(2,)], [torch.float32], api_version=4)
        >>> try:
        ...     x.tolist()
        ... except torch_go_xla.CompileError:
        ...     print("no such target")
        no such target
    """


class DonatedBufferError(XlaError):
    """A tensor was read whose memory a program has taken over.

    Example:
        >>> import torch, torch_go_xla
        >>> x = torch.ones(2, device="xla")
        >>> torch_go_xla.sync(wait=True)
        >>> given = torch_go_xla._XLAC._set_buffer_donation(x, True)
        >>> y = x + 1
        >>> torch_go_xla.sync(wait=True)  # the program writes y into the memory of x
        >>> try:
        ...     x.tolist()
        ... except torch_go_xla.DonatedBufferError:
        ...     print("x is gone")
        x is gone
    """


class NotLoweredError(NotImplementedError):
    """An op, or this use of it, has no lowering.

    Example:
        >>> import torch_go_xla
        >>> issubclass(torch_go_xla.NotLoweredError, NotImplementedError)
        True
    """


class ForkedProcessError(RuntimeError):
    """The device was used in a process forked from the one that had started it.

    Example:
        >>> import torch, torch_go_xla
        >>> context = torch.multiprocessing.get_context("spawn")  # for DataLoader(multiprocessing_context=context)
    """


# By number; a number without a class is a RuntimeError.
BY_KIND: tuple[type[BaseException], ...] = tuple(
    globals()[name] if name in globals() else getattr(builtins, name) for name in ERROR_CLASSES
)
