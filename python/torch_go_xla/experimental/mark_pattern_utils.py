"""Parts of a program that backends know by name: StableHLO composites, by torch_xla's builder."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from .._core import core as _native

__all__ = ["StableHLOCompositeBuilder"]

Attribute = str | bool | int | float | Sequence[bool] | Sequence[int] | Sequence[float]

_numbers = itertools.count()
_library: Any = torch.library.Library("xla", "FRAGMENT")  # type: ignore[no-untyped-call]
_library.define("mark_tensor(Tensor x, str name, int pos, str id, bool is_input, str? attr=None) -> Tensor")


def _mark(x: torch.Tensor, name: str, pos: int, id: str, is_input: bool, attr: str | None = None) -> torch.Tensor:
    marked: torch.Tensor = torch.ops.torch_go_xla.mark(x, name, pos, id, is_input, attr or "")
    return marked


_library.impl("mark_tensor", lambda x, *mark: x.clone(), "CompositeExplicitAutograd")
_library.impl("mark_tensor", _mark, "PrivateUse1")
torch.library.register_autograd(
    "xla::mark_tensor", lambda ctx, grad: (grad, None, None, None, None, None), lib=_library
)


class StableHLOCompositeBuilder:
    """Makes what is computed between two calls one operation of a name, ``stablehlo.composite``.

    A compiler that knows the name may have a kernel for it. For others the operation carries a function that computes
    the same, so that values do not change. It is in programs that run, and in what `torch_go_xla.stablehlo` exports.
    Under SPMD, around collectives, and in graphs that run op by op, the ops stay as they are.

    What is computed between the calls is inside. Values of before that are not marked, such as weights, are operands
    behind the marked ones.

    Args:
        name: by which backends know it, such as ``"mylib.attention"``.
        attr: attributes of the operation: texts, booleans, integers (i64), floats (f32), and lists of one of the last
            three.

    Raises:
        ValueError: an attribute of another kind.

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
            if not _fits(value):
                raise ValueError(
                    f"attribute {key!r} of composite {name}: want a str, bool, int or float, "
                    f"or a list of numbers of one type, got {value!r}"
                )
        self.name = name
        self.attr = dict(attr or {})
        self.id: str | None = None

    def mark_inputs(self, *tensors: torch.Tensor) -> Any:
        """Begin the operation.

        Args:
            tensors: its operands, of any shape, in order.

        Returns:
            The tensors to compute with, one or a tuple.

        Raises:
            TypeError: an argument is not a tensor.
        """
        return self._marked(tensors, True)

    def mark_outputs(self, *tensors: torch.Tensor) -> Any:
        """End the operation.

        Args:
            tensors: its results, in order.

        Returns:
            The tensors to go on with, one or a tuple.

        Raises:
            TypeError: an argument is not a tensor.
        """
        return self._marked(tensors, False)

    def _marked(self, tensors: tuple[torch.Tensor, ...], is_input: bool) -> Any:
        for x in tensors:
            if not isinstance(x, torch.Tensor):
                raise TypeError(f"composite {self.name}: want tensors, got {type(x).__name__}")
        if self.id is None:
            self.id = _identity(tensors)
        attr = json.dumps(self.attr) if self.attr and not is_input else None
        marked = tuple(
            torch.ops.xla.mark_tensor(x, self.name, i, self.id, is_input, attr) for i, x in enumerate(tensors)
        )
        return marked[0] if len(marked) == 1 else marked


def _identity(tensors: tuple[torch.Tensor, ...]) -> str:
    """Return what tells a composite from the others of its graph; the same when the graph is recorded again."""
    for x in tensors:
        if type(x) in (torch.Tensor, torch.nn.Parameter) and x.device.type == "xla":
            return f"slot {_native.recorded(x.device.index)}"
    return f"number {next(_numbers)}"


def _fits(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(type(x) is type(value[0]) and isinstance(x, bool | int | float) for x in value)
    return isinstance(value, str | bool | int | float)
