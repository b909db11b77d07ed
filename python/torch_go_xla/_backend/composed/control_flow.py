"""Control flow of torch on the device: cond, while_loop, scan and map as conditions and loops of the program.

Torch's own kernels read the predicate, or run the body once for each row. These trace branches and bodies as
functions of the core and record one op. What is not a function of tensors only (it draws random numbers, writes to
its arguments, has numbers among them) is left to torch's kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from ..core import is_xla, native, recording, scalar_type
from ..errors import NotLoweredError
from ..functions import Function, from_recorded
from ..kernels import HIGHER_ORDER, Kernel, add


class Traced(NamedTuple):
    """A function that the core keeps."""

    function: Function
    tree: Any  # of the result
    tensors: tuple[bool, ...]  # which leaves of the result are tensors; the others are None

    @property
    def name(self) -> str:
        """By which ops call it."""
        return self.function.name

    def result(self, values: Sequence[torch.Tensor]) -> Any:
        """Return the result of the function, with these tensors in it."""
        rest = iter(values)
        return pytree.tree_unflatten([next(rest) if t else None for t in self.tensors], self.tree)


def _placeholder(size: Sequence[int], like: torch.Tensor) -> torch.Tensor:
    x = torch.empty(size, dtype=like.dtype, device=like.device)
    native().placeholder(native().fast.handle(x), scalar_type(x.dtype), size)
    return x


def trace(
    function: Kernel, operands: Sequence[torch.Tensor], rows: Sequence[torch.Tensor] = (), first: int = 0
) -> Traced:
    """Trace a function of tensors like the operands; those like rows come behind the ``first`` of them.

    NotLoweredError if it is not one that the core can keep.
    """
    if not all(is_xla(x) for x in (*operands, *rows)):
        raise NotLoweredError("control flow: an operand is not an xla tensor")
    args = [_placeholder(x.shape, x) for x in operands]
    args[first:first] = [_placeholder(x.shape[1:], x) for x in rows]
    versions = [x._version for x in args]
    with recording():
        leaves, tree = pytree.tree_flatten(function(*args))
    if [x._version for x in args] != versions:
        raise NotLoweredError("control flow: the function writes to its arguments")
    tensors = tuple(isinstance(x, torch.Tensor) for x in leaves)
    if not all(x is None or is_xla(x) for x in leaves) or not any(tensors):
        raise NotLoweredError("control flow: the function returns something else than xla tensors")
    results = [x.clone(memory_format=torch.contiguous_format) for x in leaves if x is not None]
    return Traced(from_recorded(args, results), tree, tensors)


def cond(pred: Any, true_fn: Kernel, false_fn: Kernel, operands: Sequence[torch.Tensor]) -> Any:
    """torch.cond: one branch runs, on the device."""
    if not is_xla(pred):
        raise NotLoweredError("cond: the predicate is not an xla tensor")
    then, otherwise = (trace(f, operands) for f in (true_fn, false_fn))
    if then[1:] != otherwise[1:]:
        raise NotLoweredError("cond: the branches return different things")
    return then.result(torch.ops.torch_go_xla.cond(pred, list(operands), then.name, otherwise.name))


def while_loop(
    cond_fn: Kernel, body_fn: Kernel, carried: Sequence[torch.Tensor], extra: Sequence[torch.Tensor], **kwargs: Any
) -> Any:
    """torch.while_loop."""
    operands = (*carried, *extra)
    condition, body = (trace(f, operands) for f in (cond_fn, body_fn))
    return body.result(torch.ops.torch_go_xla.while_loop(list(carried), list(extra), condition.name, body.name))


def scan(
    combine_fn: Kernel,
    init: Sequence[torch.Tensor],
    xs: Sequence[torch.Tensor],
    extra: Sequence[torch.Tensor],
    **kwargs: Any,
) -> Any:
    """torch.scan: a loop over the rows of xs."""
    if not xs or not len(xs[0]):
        raise NotLoweredError("scan: there are no rows")
    body = trace(combine_fn, (*init, *extra), xs, len(init))
    return body.result(torch.ops.torch_go_xla.scan(list(init), list(xs), list(extra), body.name))


def map_rows(f: Kernel, xs: Sequence[torch.Tensor], extra: Sequence[torch.Tensor], **kwargs: Any) -> Any:
    """torch's map: a scan that carries nothing."""
    if not xs or not len(xs[0]):
        raise NotLoweredError("map: there are no rows")
    body = trace(f, extra, xs)
    return body.result(torch.ops.torch_go_xla.scan([], list(xs), list(extra), body.name))


add(HIGHER_ORDER, {"cond": cond, "while_loop": while_loop, "scan": scan, "map_impl": map_rows})
