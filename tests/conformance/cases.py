"""The cases of an op: what is run on the CPU and on xla, from torch's samples for the op.

A case is a function of ``move``, which gives the tensors of a tree to a device; it returns what is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import foreach_op_db, op_db
from torch.testing._internal.opinfo.core import ForeachFuncInfo
from torch.utils._pytree import tree_flatten, tree_map

Move = Callable[[Any], Any]

Case = Callable[[Move], Any]

HALVES = (torch.bfloat16, torch.float16)
KINDS = ("forward", "backward", "inplace", "out", "noncontiguous", "edge", "errors")
DTYPES = (
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.float16,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
    torch.complex64,
)
# Torch's descriptions by name. op_db has those of torch.testing._internal.opinfo.definitions too.
OPS = {op.formatted_name: op for op in (*op_db, *foreach_op_db)}


def tensors(tree: Any) -> list[torch.Tensor]:
    """Return the tensors of a tree."""
    return [x for x in tree_flatten(tree)[0] if isinstance(x, torch.Tensor)]


def mover(device: str, wide: bool = False) -> Move:
    """Return a function that copies all tensors of a tree to a device, with their strides, and names that device.

    wide makes float32 of half types.
    """

    def one(x: Any) -> Any:
        if isinstance(x, torch.device) or (isinstance(x, str) and x == "cpu"):
            return device
        if not isinstance(x, torch.Tensor):
            return x
        y = x.detach()
        if x.layout != torch.strided or x.is_conj() or x.is_neg() or x.is_contiguous():
            y = y.clone().to(device)
        else:
            used = 1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True)) if x.numel() else 0
            whole = y.as_strided((x.storage_offset() + used,), (1,), 0).clone().to(device)
            y = whole.as_strided(x.shape, x.stride(), x.storage_offset())
        if wide and x.dtype in HALVES:
            y = y.to(torch.float32)
        return y.requires_grad_(x.requires_grad)

    return lambda tree: tree_map(one, tree)


def spread(items: list[Any], most: int) -> list[Any]:
    """Pick some of the items, first and last among them."""
    if len(items) <= most:
        return items
    return [items[i * (len(items) - 1) // max(most - 1, 1)] for i in range(most)]


def supported(op: Any, dtype: torch.dtype, kind: str) -> bool:
    """Say whether torch's CPU kernels have this kind of use."""
    if dtype not in op.supported_dtypes("cpu"):
        return False
    if kind == "backward":
        return op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    if kind == "inplace":
        return op.get_inplace() is not None
    if kind == "out":
        return op.supports_out and not isinstance(op, ForeachFuncInfo)
    if kind == "errors":  # the samples have types of their own: once an op
        first = next(d for d in DTYPES if d in op.supported_dtypes("cpu"))
        return op.error_inputs_func is not None and dtype == first
    return True


def cases(op: Any, dtype: torch.dtype, kind: str, most: int) -> Iterator[tuple[str, Any, Case]]:
    """Yield at most so many cases of a kind, each with a label and the sample that it is made of."""
    torch.manual_seed(0)
    samples = list(op.sample_inputs("cpu", dtype, requires_grad=kind == "backward"))
    if kind == "inplace":
        samples = [s for s in samples if not s.broadcasts_input]
    for i, sample in spread(list(enumerate(samples)), most):
        if kind == "edge":
            for label, s in _edges(sample):
                yield f"{i}, {label}", sample, _plain(op, s)
        elif kind == "noncontiguous":
            yield str(i), sample, _plain(op, sample.noncontiguous())
        else:
            yield str(i), sample, _MAKERS[kind](op, sample)


# Ops that take further tensors from the CPU, whatever the device of the first.
_HOST_ARGUMENTS = ("tensor_split",)


def _moved(op: Any, sample: Any, move: Move) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    torch.manual_seed(0)
    if op.name in _HOST_ARGUMENTS:
        return move(sample.input), sample.args, sample.kwargs
    return move((sample.input, sample.args, sample.kwargs))


def _plain(op: Any, sample: Any) -> Case:
    def case(move: Move) -> Any:
        value, args, kwargs = _moved(op, sample, move)
        return sample.output_process_fn_grad(op(value, *args, **kwargs))

    return case


def _backward(op: Any, sample: Any) -> Case:
    def case(move: Move) -> Any:
        value, args, kwargs = _moved(op, sample, move)
        out = sample.output_process_fn_grad(op(value, *args, **kwargs))
        roots = [x for x in tensors(out) if x.requires_grad]
        leaves = [x for x in tensors((value, args, kwargs)) if x.requires_grad]
        if not roots or not leaves:
            return []
        return torch.autograd.grad(roots, leaves, [_ramp(x) for x in roots], allow_unused=True)

    return case


def _ramp(x: torch.Tensor) -> torch.Tensor:
    """Return gradients that differ from element to element, the same on every device."""
    values = torch.linspace(0.5, 1.5, max(x.numel(), 1), dtype=torch.float64)[: x.numel()]
    return values.reshape(x.shape).to(x.dtype).to(x.device)


def _inplace(op: Any, sample: Any) -> Case:
    def case(move: Move) -> Any:
        value, args, kwargs = _moved(op, sample, move)
        result = op.get_inplace()(value, *args, **kwargs)
        return [value, result]

    return case


def _out(op: Any, sample: Any) -> Case:
    """Write to tensors that are right but not contiguous, and to empty ones, which are resized."""

    def case(move: Move) -> Any:
        torch.manual_seed(0)
        want = op(sample.input, *sample.args, **sample.kwargs)
        # Some of torch's CPU kernels (narrow_copy, gelu, tril) write past or beside what is not contiguous.
        right = torch.zeros_like if move("cpu") == "cpu" else _transposed
        given = []
        for make in (right, lambda x: x.new_empty(0)):
            out = move(tree_map(lambda x, make=make: make(x) if isinstance(x, torch.Tensor) else x, want))
            value, args, kwargs = _moved(op, sample, move)
            op(value, *args, out=out, **kwargs)
            given.append(sample.output_process_fn_grad(out))
        return given

    return case


def _transposed(x: torch.Tensor) -> torch.Tensor:
    """Return a tensor like x, with its dimensions in reverse in memory."""
    order = list(range(x.dim()))[::-1]
    return torch.zeros([x.shape[i] for i in order], dtype=x.dtype).permute(order)


_MAKERS: dict[str, Callable[[Any, Any], Case]] = {
    "forward": _plain,
    "backward": _backward,
    "inplace": _inplace,
    "out": _out,
}


def _edges(sample: Any) -> Iterator[tuple[str, Any]]:
    """Yield the sample with tensors of no elements, and with tensors of no dimensions."""
    if not tensors((sample.input, sample.args)):
        return
    yield "no elements", sample.transform(lambda x: _each(x, lambda t: t[:0] if t.dim() else t))
    yield "no dimensions", sample.transform(lambda x: _each(x, lambda t: t.flatten()[0] if t.numel() else t))


def _each(x: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    return change(x) if isinstance(x, torch.Tensor) and x.layout == torch.strided else x
