"""What is released when objects are gone, and what ends with a fork. It needs no torch."""

from __future__ import annotations

import functools
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any


class _End(weakref.ref[Any]):
    """A reference to an object, and what to do when that is gone."""

    __slots__ = ("release",)
    release: Callable[[], Any]


class Ends:
    """Releases what belongs to objects that are gone, where the caller says so.

    A finalizer in Python runs anywhere: while the same thread holds a lock, as the interpreter ends, in a fork. It also
    runs in the handler of a signal, whose exception Python then drops. So the end of an object runs no Python: it is
    noted only.
    """

    def __init__(self) -> None:
        self._ends: dict[int, _End] = {}  # the references, by their addresses
        self._gone: deque[_End] = deque()  # those whose objects are gone

    def when_gone(self, owner: Any, release: Callable[..., Any], *args: Any) -> None:
        """Call a function some time after an object is gone, at the next call of a method at the latest."""
        end = _End(owner, self._gone.append)
        end.release = functools.partial(release, *args)
        self._ends[id(end)] = end
        self.release_gone()

    def release_gone(self) -> None:
        """Release what belongs to objects that are gone."""
        while self._gone:
            try:
                end = self._gone.popleft()
            except IndexError:  # another thread took it
                break
            del self._ends[id(end)]
            end.release()


def forbid(library: Any, error: type[RuntimeError]) -> None:
    """Have the library's functions raise: of the Go runtime's threads, only the calling one lives on in a fork."""

    def dead(*args: Any, **kwargs: Any) -> Any:
        raise error("torch_go_xla cannot be used in a forked child: use the 'spawn' start method")

    for name in dir(library):
        if name.startswith("bindings_"):
            setattr(library, name, dead)
