"""Running each op at once: torch_xla's ``torch_xla.experimental.eager``. See `torch_go_xla.debug.eager`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from .._backend import eager as _eager

__all__ = ["eager_mode", "eager_mode_context", "is_eager_mode"]


def eager_mode(enable: bool) -> None:
    """Let ops run on the device as they are called, or record them again.

    Functions under `torch_go_xla.compile` are recorded in either case.

    Args:
        enable: True to run them.

    Example:
        >>> import torch, torch_go_xla.experimental as xe
        >>> xe.eager_mode(True)
        >>> x = torch.ones(2, device="xla") + 1  # has been computed
        >>> xe.eager_mode(False)
    """
    _eager.set_default(enable)


def is_eager_mode() -> bool:
    """Tell whether ops run as they are called.

    Example:
        >>> import torch_go_xla.experimental as xe
        >>> xe.is_eager_mode()
        False
    """
    return _eager.is_default()


@contextlib.contextmanager
def eager_mode_context(enable: bool) -> Iterator[bool]:
    """Switch the mode for a block; yields how it was.

    Args:
        enable: as for `eager_mode`.

    Example:
        >>> import torch_go_xla.experimental as xe
        >>> with xe.eager_mode_context(True) as before:
        ...     before, xe.is_eager_mode()
        (False, True)
    """
    before = is_eager_mode()
    eager_mode(enable)
    try:
        yield before
    finally:
        eager_mode(before)
