"""Computations that are recorded once and then run without being recorded.

`Recorded` wraps a function of tensors. Its first call records and captures what the function does; later calls with
arguments of the same layout hand the core the storages of the arguments and take those of the results: no op of the
function is called again.
"""

from __future__ import annotations

import array
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .core import native, scalar_type

# After so many recordings in a row that differ, a function is no longer captured.
_PATIENCE = 8

# What Recorded.replay gives where it has nothing to replay.
MISS: Any = object()


@dataclass(frozen=True)
class _Output:
    """A tensor of the result: a view of a new storage, or of an argument's."""

    storage: int  # place among the new storages; -1: of an argument
    argument: int  # place among the arguments
    dtype: torch.dtype
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    items: int  # of the storage


@dataclass(frozen=True)
class _Argument:
    """A result that is an argument itself."""

    place: int


@dataclass
class _Capture:
    """One captured computation."""

    id: int
    storages: tuple[int, ...]  # the arguments whose storages it takes
    outputs: list[Any]  # the leaves of the result: _Output, _Argument, or a value that is no tensor
    tree: Any  # of the result
    new: int  # how many storages it makes
    digest: int

    def __del__(self) -> None:
        if self.id:
            native().drop_replay(self.id)


def layout(args: Sequence[Any]) -> Hashable:
    """Describe arguments as far as a captured computation depends on them; None where it cannot be captured.

    Tensors: type, sizes, strides, offset, gradient, and which of them share a storage. Other values: themselves.
    """
    fast = native().fast
    seen: dict[int, int] = {}
    out: list[Hashable] = []
    for a in args:
        if not isinstance(a, torch.Tensor):
            try:
                hash(a)
            except TypeError:
                return None
            if isinstance(a, float) and math.isnan(a):
                return None
            out.append((type(a), a))
            continue
        if type(a) not in (torch.Tensor, torch.nn.Parameter) or a.device.type != "xla" or a.is_conj() or a.is_neg():
            return None
        handle = fast.handle(a)
        place = seen.setdefault(handle, len(seen))
        out.append((place, a.dtype, a.size(), a.stride(), a.storage_offset(), a.requires_grad))
    return tuple(out)


class Recorded:
    """A function whose calls are recorded once for each layout of its arguments.

    A pure function (``state=False``) is captured at its first call. One with state reads and writes other tensors
    than its arguments; it is captured once two recordings in a row gave the same program with the same numbers, as
    only then a replay does what another recording would do.
    """

    def __init__(self, function: Callable[..., Any], device: int = 0, state: bool = False) -> None:
        self._function = function
        self._device = device
        self._state = state
        self._captures: dict[Hashable, _Capture] = {}
        self._digests: dict[Hashable, int] = {}
        self._changes = 0
        self.replays = 0
        self.reason = "never called"  # why the latest call was not a replay

    @property
    def graphs(self) -> int:
        """The number of different calls that were seen."""
        return len(self._digests)

    def __call__(self, args: Sequence[Any], key: Hashable = None) -> Any:
        """Call the function; ``key`` adds to what has to be equal for a replay."""
        where = layout(args)
        if where is None:
            self.reason = "an argument is no plain xla tensor or hashable value"
            return self._function(*args)
        result = self.replay(args, (where, key))
        return self.record(args, (where, key)) if result is MISS else result

    def replay(self, args: Sequence[Any], key: Hashable) -> Any:
        """Return the result of a replay, MISS if none fits."""
        capture = self._captures.get(key)
        if capture is None or not capture.id:
            return MISS
        fast, core = native().fast, native()
        handles = array.array("q", [fast.handle(args[i]) for i in capture.storages])
        new = array.array("q", bytes(8 * capture.new))
        if not core.replay(capture.id, handles, new):
            del self._captures[key]
            return MISS
        self.replays += 1
        self.reason = ""
        bases: list[torch.Tensor | None] = [None] * capture.new
        leaves: list[Any] = []
        for o in capture.outputs:
            if not isinstance(o, _Output):
                leaves.append(args[o.place] if isinstance(o, _Argument) else o)
                continue
            base = args[o.argument].detach() if o.storage < 0 else bases[o.storage]
            if base is None:
                whole = o.offset == 0 and math.prod(o.size) == o.items
                code = scalar_type(o.dtype)
                base = fast.new_tensor(
                    new[o.storage], code, self._device, *((o.size, o.stride) if whole else ((o.items,),))
                )
                bases[o.storage] = base
                if whole:
                    leaves.append(base)
                    continue
            leaves.append(base.as_strided(o.size, o.stride, o.offset))
        for handle, base in zip(new, bases, strict=True):
            if base is None:
                fast.new_tensor(handle, scalar_type(torch.uint8), self._device, (0,))  # frees the storage
        return leaves[0] if capture.tree.is_leaf() else pytree.tree_unflatten(leaves, capture.tree)

    def record(self, args: Sequence[Any], key: Hashable) -> Any:
        """Call the function, and capture what it records if that is one graph."""
        core = native()
        core.sync(self._device)
        before = core.syncs()
        result = self._function(*args)
        if core.syncs() != before:
            self.reason = "it reads a value, or syncs, on the way"
            self._digests.setdefault(key, 0)
            return result
        if self._changes < _PATIENCE:
            leaves, tree = pytree.tree_flatten(result)
            capture = self.capture(args, leaves, tree)
            known = self._digests.get(key)
            self._digests[key] = capture.digest
            if not self._state or known == capture.digest:
                self._captures[key] = capture
                self._changes = 0
            elif known is None:
                self.reason = self.reason or "first recording"
            else:
                self._changes += 1
                self.reason = "its numbers or its ops differ from call to call"
        core.sync(self._device)
        return result

    def capture(self, args: Sequence[Any], leaves: list[Any], tree: Any) -> _Capture:
        """Capture what is recorded as a function from the arguments to the leaves of its result."""
        fast = native().fast
        places: dict[int, int] = {}
        for i, a in enumerate(args):
            if isinstance(a, torch.Tensor):
                places.setdefault(fast.handle(a), i)
        new: dict[int, int] = {}
        outputs: list[Any] = []
        for x in leaves:
            if not isinstance(x, torch.Tensor):
                outputs.append(x)
                continue
            if (same := next((i for i, a in enumerate(args) if a is x), -1)) >= 0:
                outputs.append(_Argument(same))  # a parameter that the backward pass takes
                continue
            if type(x) is not torch.Tensor or x.device.type != "xla" or x.requires_grad:
                self.reason = "it returns a tensor that requires grad, or is elsewhere"
                return _Capture(0, (), [], tree, 0, 0)
            handle = fast.handle(x)
            argument = places.get(handle, -1)
            storage = -1 if argument >= 0 else new.setdefault(handle, len(new))
            items = x.untyped_storage().nbytes() // x.element_size()
            outputs.append(
                _Output(storage, argument, x.dtype, tuple(x.size()), x.stride(), int(x.storage_offset()), items)
            )
        id, digest = native().capture(list(places), list(new), self._state)
        self.reason = "" if id else "it computes nothing on the device"
        return _Capture(id, tuple(places.values()), outputs, tree, len(new), digest)
