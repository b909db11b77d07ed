"""Functions that the core keeps, for ops that call them by name: control flow, programs of users, pure functions.

The core keeps a function while a `Function` of Python stands for it, or recorded ops call it.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from .core import native


class Array(NamedTuple):
    """A tensor, as far as a function depends on it."""

    dtype: torch.dtype
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{str(self.dtype).removeprefix('torch.')}[{', '.join(map(str, self.shape))}]"


class Function:
    """A function that the core keeps as long as this object lives: its name, what it takes and what it returns."""

    __slots__ = ("__weakref__", "arguments", "name", "results")

    def __init__(self, signature: dict[str, Any]) -> None:
        self.name: str = signature["name"]
        self.arguments, self.results = (
            [Array(getattr(torch, a["dtype"]), tuple(a["shape"] or ())) for a in signature[side] or ()]
            for side in ("arguments", "results")
        )
        native().when_gone(self, native().drop_function, self.name)

    def __call__(self, operands: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Record a call."""
        return list(torch.ops.torch_go_xla.call(list(operands), self.name))


# By name. No lock: threads that define one function at once may get an object each, which the core counts.
_living: weakref.WeakValueDictionary[str, Function] = weakref.WeakValueDictionary()
_traced: dict[str, Function] = {}  # those that a trace of torch's calls: it has the name, and may run at any time


def define(text: str) -> Function:
    """Return a StableHLO program as a function; ValueError if it is not one."""
    return _held(native().define(text))


def from_recorded(arguments: Sequence[torch.Tensor], results: Sequence[torch.Tensor]) -> Function:
    """Return what is recorded of dense tensors as a function of others, which are placeholders."""
    handle = native().fast.handle
    return _held(native().function([handle(x) for x in arguments], [handle(x) for x in results]))


def _held(signature: dict[str, Any]) -> Function:
    function = Function(signature)
    return _living.setdefault(function.name, function)


def describe(operands: Sequence[torch.Tensor], program: str) -> list[torch.Tensor]:
    """Return tensors without values like the results of a call that torch traces."""
    function = _traced.setdefault(program, _living[program])
    device = operands[0].device if operands else torch.device("xla")
    return [torch.empty(r.shape, dtype=r.dtype, device=device) for r in function.results]
