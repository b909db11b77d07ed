"""Computations that are recorded once and then run without being recorded.

`Recorded` wraps a function of tensors. Its first call records and captures what the function does. Later calls with
arguments of the same layout hand the core the storages of the arguments, and take those of the results. No op of the
function is called again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .core import native, recording, scalar_type

# After so many recordings in a row that differ, a function is no longer captured.
_PATIENCE = 8

# Different calls of a function that are known at a time. A learning rate that changes makes one a step.
_KEPT = 64


class _Graphless(torch.autograd.Function):
    """Gives the result of a replay, which has no graph, the gradient function that says so."""

    @staticmethod
    def forward(ctx: Any, anchor: torch.Tensor, value: torch.Tensor, recorded: Recorded) -> torch.Tensor:
        """Return the value, as a tensor that requires grad as ``anchor`` does."""
        ctx.recorded = recorded
        ctx.mark_dirty(value)  # so that it is returned itself, not a view of it
        return value

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        """Raise RuntimeError; the next call is recorded."""
        ctx.recorded.forbid()
        raise RuntimeError(
            "backward through the result of a compiled step that was replayed, which has no graph: call backward "
            "inside of the step. From the next call on the step is recorded"
        )


_ANCHOR = torch.zeros((), requires_grad=True)


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
    requires_grad: bool = False

    @property
    def whole(self) -> bool:
        """Whether it covers its storage."""
        return self.offset == 0 and math.prod(self.size) == self.items

    @property
    def base(self) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """The tensor that is made over its storage: scalar type, sizes, strides; itself if it is whole."""
        return (scalar_type(self.dtype), *((self.size, self.stride) if self.whole else ((self.items,), (1,))))


@dataclass(frozen=True)
class _Argument:
    """A result that is an argument itself."""

    place: int


class _Capture:
    """One captured computation; without a number, one that cannot be replayed."""

    def __init__(self, id: int = 0, digest: int = 0) -> None:
        self.id = id
        self.digest = digest
        self.run: Any = None  # see _goxlafast.replay
        self.plain = False  # the result is the one tensor that it makes
        self._outputs: list[Any] = []
        self._bases: list[_Output] = []
        self._tree: Any = None
        if id:
            native().when_gone(self, native().drop_replay, id)

    def prepare(self, device: int, arguments: tuple[int, ...], outputs: list[Any], tree: Any, sync: Any) -> None:
        """Make its call, see _goxlafast.replay.

        ``arguments`` are the places of those whose storages it takes. ``outputs`` are the leaves of its result: an
        _Output, an _Argument, or a value that is not a tensor.
        """
        first: dict[int, _Output] = {}
        for o in outputs:
            if isinstance(o, _Output) and o.storage >= 0:
                first.setdefault(o.storage, o)
        self._outputs, self._tree = outputs, tree
        self._bases = [first[k] for k in range(len(first))]
        self.plain = tree.is_leaf() and outputs == self._bases and outputs[0].whole and not outputs[0].requires_grad
        self.run = native().fast.replay(self.id, device, arguments, tuple(o.base for o in self._bases), sync)

    def result(self, args: Sequence[Any], bases: list[torch.Tensor], recorded: Recorded) -> Any:
        """Return the result of a run, from the tensors over the storages that it made."""
        leaves: list[Any] = []
        for o in self._outputs:
            if isinstance(o, _Argument):
                leaves.append(args[o.place])
            elif not isinstance(o, _Output):
                leaves.append(o)
            else:
                value = self._view(o, args, bases)
                leaves.append(_Graphless.apply(_ANCHOR, value, recorded) if o.requires_grad else value)
        return leaves[0] if self._tree.is_leaf() else pytree.tree_unflatten(leaves, self._tree)

    def _view(self, o: _Output, args: Sequence[Any], bases: list[torch.Tensor]) -> torch.Tensor:
        """Return a tensor of the result, without its gradient function."""
        if o.storage >= 0 and o is self._bases[o.storage] and o.whole:
            return bases[o.storage]
        base = args[o.argument].detach() if o.storage < 0 else bases[o.storage]
        if base.dtype != o.dtype:
            base = torch.empty(0, dtype=o.dtype, device=base.device).set_(base.untyped_storage())
        return base.as_strided(o.size, o.stride, o.offset)


class Recorded:
    """A function whose calls are recorded once for each layout of its arguments.

    A pure function (``state=False``) is captured at its first call. One with state reads and writes other tensors
    than its arguments. It is captured once two recordings in a row gave the same program with the same numbers. Only
    then a replay does what another recording would do.

    A result that requires grad is replayed as one without a graph, if nothing was differentiated by the results of the
    recordings. For example, a training step that returns its loss has called backward itself.
    """

    def __init__(self, function: Callable[..., Any], device: int = 0, state: bool = False) -> None:
        self._function = function
        self._device = device
        self._state = state
        self._captures: dict[Hashable, _Capture] = {}
        self._digests: dict[Hashable, int] = {}  # of at most _KEPT calls
        self._graphs = 0
        self._changes = 0
        self._differentiated = False  # by a result, outside of the function
        self.replays = 0
        self.reason = "never called"  # why the latest call was not a replay

    @property
    def graphs(self) -> int:
        """The number of different calls that were seen."""
        return self._graphs

    def __call__(self, args: Sequence[Any], key: Hashable = None) -> Any:
        """Call the function; ``key`` adds to what has to be equal for a replay."""
        where = native().fast.layout(args)
        if where is None:
            self.reason = "an argument is not a plain xla tensor or hashable value"
            return self._function(*args)
        capture = self._captures.get((where, key))
        if capture is not None and capture.run is not None:
            bases = capture.run(args)
            if bases is not None:
                self.replays += 1
                self.reason = ""
                return bases[0] if capture.plain else capture.result(args, bases, self)
            del self._captures[where, key]
        return self.record(args, (where, key))

    def forbid(self) -> None:
        """Replay no more: a result was differentiated."""
        self._differentiated = True
        self._captures.clear()

    def _watch(self, result: torch.Tensor) -> None:
        """Notice that something is differentiated by a result."""

        def seen(_: torch.Tensor) -> None:
            self._differentiated = True

        result.register_hook(seen)  # type: ignore[no-untyped-call]

    def record(self, args: Sequence[Any], key: Hashable) -> Any:
        """Call the function, and capture what it records if that is one graph."""
        core = native()
        core.sync(self._device)
        before = core.syncs()
        with recording():
            result = self._function(*args)
        if core.syncs() != before:
            self.reason = "it reads a value, or syncs, on the way"
            self._remember(key, self._digests.get(key, 0))
            return result
        if self._changes < _PATIENCE:
            leaves, tree = pytree.tree_flatten(result)
            capture = self.capture(args, leaves, tree)
            known = self._digests.get(key)
            self._remember(key, capture.digest)
            if not capture.id:
                pass  # the reason has been said
            elif not self._state or known == capture.digest:
                self._captures[key] = capture
                self._changes = 0
            elif known is None:
                self.reason = self.reason or "first recording"
            else:
                self._changes += 1
                self.reason = "its numbers or its ops differ from call to call"
        core.sync(self._device)
        return result

    def _remember(self, key: Hashable, digest: int) -> None:
        """Keep the digest of a call, in place of an old one if there are too many: one that is not replayed, if any."""
        self._graphs += key not in self._digests
        self._digests[key] = digest
        if len(self._digests) > _KEPT:
            spare = (k for k in self._digests if k != key and k not in self._captures)
            oldest = next(spare, next(iter(self._digests)))
            del self._digests[oldest]
            self._captures.pop(oldest, None)

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
            if type(x) is not torch.Tensor or x.device.type != "xla" or x.layout != torch.strided:
                self.reason = "it returns a tensor that is not on the device, or is sparse"
                return _Capture()
            if x.requires_grad:
                if not self._state or self._differentiated:
                    self.reason = "it returns a tensor that the program differentiates: call backward inside of it"
                    return _Capture()
                self._watch(x)
            handle = fast.handle(x)
            argument = places.get(handle, -1)
            storage = -1 if argument >= 0 else new.setdefault(handle, len(new))
            items = x.untyped_storage().nbytes() // x.element_size()
            outputs.append(
                _Output(
                    storage,
                    argument,
                    x.dtype,
                    tuple(x.size()),
                    x.stride(),
                    int(x.storage_offset()),
                    items,
                    x.requires_grad,
                )
            )
        native().release_gone()  # a generator of only the step must not be one of its state
        capture = _Capture(*native().capture(list(places), list(new), self._state))
        if capture.id:
            sync = native().sync if self._state else None
            capture.prepare(self._device, tuple(places.values()), outputs, tree, sync)
        self.reason = "" if capture.id else "it computes nothing on the device"
        return capture
