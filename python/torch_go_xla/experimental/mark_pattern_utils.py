"""Parts of a program that backends know by name: StableHLO composites, by torch_xla's builder."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from .._backend.core import native

__all__ = ["StableHLOCompositeBuilder"]

Attribute = str | bool | int | float | Sequence[bool] | Sequence[int] | Sequence[float]

native()  # defines the op
_MARK = "torch_go_xla::mark"
torch.library.impl(_MARK, "CPU")(lambda tensors, *mark: [x.clone() for x in tensors])  # for exported programs
torch.library.register_autograd(_MARK, lambda ctx, grads: (grads, None, None, None))


class StableHLOCompositeBuilder:
    """Makes what is computed between two calls one operation of a name, ``stablehlo.composite``.

    A compiler that knows the name may have a kernel for it. For others the operation carries a function that computes
    the same, so that values do not change. It is in programs that run, and in what `torch_go_xla.stablehlo` exports.
    Under SPMD, and where there are collectives inside, the ops stay as they are. Graphs with composites are compiled
    in each mode of `torch_go_xla.tiers`.

    What is computed between the calls is inside. Values of before that are not marked, such as weights, are operands
    behind the marked ones.

    Args:
        name: by which backends know it, such as ``"mylib.attention"``.
        attr: attributes of the operation: texts, booleans, integers (i64), finite floats (f32), and lists of one of
            the last three.

    Raises:
        ValueError: an attribute of another kind, or an integer of more than 64 bits.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.experimental.mark_pattern_utils import StableHLOCompositeBuilder
        >>> def scaled(x, by):
        ...     builder = StableHLOCompositeBuilder("mylib.scaled", {"by": by})
        ...     x = builder.mark_inputs(x)
        ...     return builder.mark_outputs(x * by)
        >>> y = scaled(torch.ones(2, device="xla"), 3.0)
        >>> 'stablehlo.composite' in torch_go_xla.core.xla_model.get_stablehlo([y])
        True
        >>> y.tolist()
        [3.0, 3.0]
    """

    def __init__(self, name: str, attr: Mapping[str, Attribute] | None = None) -> None:
        for key, value in (attr or {}).items():
            if not key:
                raise ValueError(f"an attribute of composite {name} has an empty name")
            if not _fits(value):
                raise ValueError(
                    f"attribute {key!r} of composite {name}: want a str, a bool, an int of 64 bits, a finite float, "
                    f"or a list of numbers of one type, got {value!r}"
                )
        self.name = name
        self.attr = dict(attr or {})
        self._first: torch.Tensor | None = None  # of the operands, as they were returned

    def mark_inputs(self, *tensors: torch.Tensor) -> Any:
        """Begin the operation.

        Args:
            tensors: its operands, of any shape, in order; one at least.

        Returns:
            The tensors to compute with, one or a tuple.

        Raises:
            TypeError: an argument is not a tensor, or there is none.
        """
        marked = self._marked(tensors, None)
        self._first = marked[0]
        return marked[0] if len(marked) == 1 else marked

    def mark_outputs(self, *tensors: torch.Tensor) -> Any:
        """End the operation.

        Args:
            tensors: its results, in order; one at least.

        Returns:
            The tensors to go on with, one or a tuple.

        Raises:
            TypeError: an argument is not a tensor, or there is none.
            RuntimeError: the operation was not begun by `mark_inputs`, or has ended.
        """
        if self._first is None:
            raise RuntimeError(f"composite {self.name}: mark_inputs comes before mark_outputs, each once")
        marked = self._marked(tensors, self._first)
        self._first = None
        return marked[0] if len(marked) == 1 else marked

    def _marked(self, tensors: tuple[torch.Tensor, ...], first: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
        if wrong := [type(x).__name__ for x in tensors if not isinstance(x, torch.Tensor)]:
            raise TypeError(f"composite {self.name}: want tensors, got {wrong[0]}")
        if not tensors:
            raise TypeError(f"composite {self.name}: want one tensor at least")
        attr = json.dumps(self.attr) if self.attr else ""
        return tuple(torch.ops.torch_go_xla.mark(tensors, first, self.name, attr))


def _fits(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(type(x) is type(value[0]) and not isinstance(x, str) and _fits(x) for x in value)
    if isinstance(value, bool | str):
        return True
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return isinstance(value, float) and math.isfinite(value)
