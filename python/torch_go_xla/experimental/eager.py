"""Running each op at once: torch_xla's ``torch_xla.experimental.eager``. See `torch_go_xla.debug.eager`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from .._backend import eager as _eager

__all__ = ["eager_mode", "eager_mode_context", "is_eager_mode"]


def eager_mode(enable: bool) -> None:
    """Let ops run on the device as they are called, but those of functions under `torch_go_xla.compile`; or not."""
    _eager.set_default(enable)


def is_eager_mode() -> bool:
    """Tell whether ops run as they are called."""
    return _eager.is_default()


@contextlib.contextmanager
def eager_mode_context(enable: bool) -> Iterator[bool]:
    """Switch the mode for a block; yields how it was."""
    before = is_eager_mode()
    eager_mode(enable)
    try:
        yield before
    finally:
        eager_mode(before)
