"""A mode in which each op has run when its line returns; `torch_go_xla.debug.eager` shows it to users.

Nothing else changes: it is the device that computes, by programs of one op each. That is slow; programs that are
under `torch_go_xla.compile` are recorded whole as before.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from .core import is_xla, native


class Eager(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Syncs the device after each op that made or wrote a tensor on it, and waits for it."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if getattr(_recording, "depth", 0) == 0:
            written = args if func._schema.is_mutable else ()
            for device in {x.device.index for x in pytree.tree_leaves((result, written)) if is_xla(x)}:
                native().sync(device)
                native().finish(device)
        return result


_recording = threading.local()  # depth: of the functions under `compile` that this thread is in


@contextlib.contextmanager
def recorded_whole() -> Iterator[None]:
    """Let the ops of a block be computed together also in this mode, as far as this thread records them."""
    _recording.depth = getattr(_recording, "depth", 0) + 1
    try:
        yield
    finally:
        _recording.depth -= 1


def whole(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function each of whose calls is `recorded_whole`."""

    def recorded(*args: Any, **kwargs: Any) -> Any:
        with recorded_whole():
            return function(*args, **kwargs)

    return recorded


class _Default(threading.local):
    """The mode that `eager_mode` has switched on in a thread."""

    mode: Eager | None = None

    def set(self, enable: bool) -> None:
        """Switch the mode on or off."""
        if enable and self.mode is None:
            self.mode = Eager()  # type: ignore[no-untyped-call]
            self.mode.__enter__()  # type: ignore[no-untyped-call]
        elif not enable and self.mode is not None:
            mode, self.mode = self.mode, None
            mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]


_default = _Default()


def set_default(enable: bool) -> None:
    """Switch the mode of the thread on or off, until it is switched again."""
    _default.set(enable)


def is_default() -> bool:
    """Tell whether `set_default` has switched the mode on."""
    return _default.mode is not None
