"""Computes a graph from its text by torch on the CPU: a second reader of the text, to compare the device with."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from torch_go_xla.debug.replay import TYPES

_LINE = re.compile(r"^(%\d+) = (\S+) ?(.*?)(?: ?\{(.*)\})? : ([^{}]+)$")
_OPERAND = re.compile(r"\[.*?\]|[^,\s]+")
_ATTRIBUTE = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|\[.*?\]|[^,]+)')
# What a CPU tensor does not need to be told.
_PLACE = {"layout", "device", "pin_memory"}


def value(text: str) -> Any:
    """Return an attribute: an int, a float, a list of them, a text or a type."""
    return TYPES[text] if text in TYPES else json.loads(text.replace("Inf", "Infinity").replace("+", ""))


def number(text: str) -> Any:
    """Return a number of the text, as Python has it."""
    word = text.partition(" (")[0] if not text.startswith("(") else text.partition(") (")[0].rstrip(")") + ")"
    return {"True": True, "False": False}[word] if word in ("True", "False") else _parse(word)


def _parse(word: str) -> Any:
    for read in (int, float):
        try:
            return read(word)
        except ValueError:
            pass
    return complex(word)


def _broadcast(x: torch.Tensor, dims: Sequence[int], mapping: Sequence[int]) -> torch.Tensor:
    size = [1] * len(dims)
    for i, d in enumerate(mapping):
        size[d] = x.shape[i]
    return x.reshape(size).expand(dims)


def _update(base: torch.Tensor, block: torch.Tensor, starts: Sequence[int], strides: Sequence[int]) -> torch.Tensor:
    made = base.clone()
    window = zip(starts, block.shape, strides, strict=True)
    made[tuple(slice(i, i + (n - 1) * s + 1, s) for i, n, s in window)] = block
    return made


def _scatter(x: torch.Tensor, v: torch.Tensor, size: list[int], stride: list[int], offset: int) -> torch.Tensor:
    made = x.clone()
    made.as_strided(size, stride, offset).copy_(v)
    return made


def _starts(base: torch.Tensor, starts: Sequence[int], sizes: Sequence[int]) -> list[int]:
    return [min(max(i, 0), n - s) for i, n, s in zip(starts, base.shape, sizes, strict=True)]


def _slice(x: torch.Tensor, starts: Sequence[int], sizes: Sequence[int]) -> torch.Tensor:
    return x[tuple(slice(i, i + n) for i, n in zip(_starts(x, starts, sizes), sizes, strict=True))]


STEPS: dict[str, Callable[..., torch.Tensor]] = {
    "reshape": lambda x, dims: x.reshape(dims),
    "slice": lambda x, starts, limits, strides: x[
        tuple(slice(*window) for window in zip(starts, limits, strides, strict=True))
    ],
    "transpose": lambda x, permutation: x.permute(permutation),
    "broadcast": _broadcast,
    "pad": lambda x, low, high: F.pad(x, [n for pair in reversed([*zip(low, high, strict=True)]) for n in pair]),
    "gather": lambda x, size, stride, offset: x.contiguous().as_strided(size, stride, offset),
    "bitcast": lambda x, dtype, dims: x.contiguous().view(dtype).reshape(dims),
    "update": lambda x, block, starts: _update(x, block, starts, [1] * x.dim()),
    "update_strided": _update,
    "scatter": _scatter,
    "cast": lambda x, dtype: x.to(dtype),
    "zeros": lambda dtype, dims: torch.zeros(dims, dtype=dtype),
    "dynamic_slice": _slice,
    "dynamic_update": lambda x, block, starts: _update(x, block, _starts(x, starts, block.shape), [1] * x.dim()),
}


def _aten(name: str, operands: list[Any], attributes: dict[str, Any]) -> Any:
    base, _, overload = name.partition(".")
    op = getattr(getattr(torch.ops.aten, base), overload or "default")
    given, rest = {}, list(operands)
    for argument in op._schema.arguments:
        kind = str(argument.type)
        if argument.name in attributes:
            v = attributes[argument.name]
            if argument.name in _PLACE:
                continue
            if "bool" in kind:
                v = [bool(x) for x in v] if isinstance(v, list) else bool(v)
            given[argument.name] = v
        elif rest and ("Tensor" in kind or "Scalar" in kind or "number" in kind):
            given[argument.name] = rest.pop(0)
    assert not rest, f"{name}: {len(rest)} operands too many"
    return op(**given)


def run(graph: str, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return the results of a graph."""
    waiting, values = iter(inputs), {}

    def operand(text: str) -> Any:
        if text.startswith("["):
            return [operand(t) for t in _OPERAND.findall(text[1:-1])]
        return None if text == "None" else values[text]

    for line in graph.splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        name, op, operands, attributes, _ = found.groups()
        if op == "xla::data":
            values[name] = next(waiting).clone()
            continue
        if op == "xla::scalar":
            values[name] = number(operands)
            continue
        given = [operand(t) for t in _OPERAND.findall(operands)]
        named = {k: value(v) for k, v in _ATTRIBUTE.findall(attributes or "")}
        space, _, row = op.partition("::")
        made = _aten(row, given, named) if space == "aten" else STEPS[row](*given, *named.values())
        for k, result in enumerate(made if isinstance(made, (tuple, list)) else [made]):
            values[f"{name}#{k}" if k else name] = result
    returned = graph.rpartition("return")[2]
    return [values[r] for r in re.findall(r"%\d+(?:#\d+)?", returned)]
