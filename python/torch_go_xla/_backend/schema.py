"""Torch's function schemas as data, read from their text.

The text is what ``str(torch.FunctionSchema)`` gives, as in
``aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)``.
"""

from __future__ import annotations

import ast
import functools
import re
from typing import Any, NamedTuple

import torch

from .._vocabulary import TYPE_CODES


class Arg(NamedTuple):
    """One argument, or one result."""

    type: str  # without alias annotation: "Tensor", "int[2]", "Scalar?"
    name: str  # with the type, what makes two arguments the same
    alias: str  # letter of the alias set, "" for none
    write: bool
    keyword_only: bool
    default: str | None


class Schema(NamedTuple):
    """One overload."""

    name: str  # "aten::add_.Tensor"
    args: tuple[Arg, ...]
    returns: tuple[Arg, ...]
    written: tuple[Arg, ...]  # arguments that the op writes to

    @property
    def base(self) -> str:
        """The operator without namespace and overload: "add_"."""
        return self.name.partition("::")[2].partition(".")[0]

    @property
    def overload(self) -> str:
        """The overload: "Tensor", "" for the default one."""
        return self.name.partition(".")[2]

    @property
    def key(self) -> str:
        """The name without namespace, as torch.library takes it: "add_.Tensor"."""
        return self.name.partition("::")[2]

    @property
    def is_functional(self) -> bool:
        """The op neither writes to an argument nor returns an alias of one."""
        return not any(a.alias for a in (*self.args, *self.returns))


_ITEM = re.compile(
    r"(?P<type>[\w.]+)(?:\((?P<alias>[a-z*|]*)(?P<write>!?)[^)]*\))?(?P<more>[\[\]\d?]*)"
    r"(?: (?P<name>\w+))?(?:=(?P<default>.*))?"
)


@functools.cache
def _item(text: str, keyword_only: bool) -> Arg:
    m = _ITEM.fullmatch(text)
    if m is None:
        raise ValueError(f"not an argument of a schema: {text!r}")
    kind, alias, write, more, name, default = m.groups()
    return Arg(kind + more, name or "", alias or "", bool(write), keyword_only, default)


def _items(text: str) -> tuple[Arg, ...]:
    out: list[Arg] = []
    keyword_only = False
    begun = ""
    for part in text.split(", ") if text else ():
        if part == "*":
            keyword_only = True
            continue
        if begun or "=[" in part:  # a list as default has commas too
            begun += ", " + part if begun else part
            if not part.endswith("]"):
                continue
            part, begun = begun, ""
        out.append(_item(part, keyword_only))
    return tuple(out)


@functools.cache
def parse(text: str) -> Schema:
    """Read a schema."""
    head, _, tail = text.rpartition(" -> ")
    name, _, args = head.partition("(")
    if tail.startswith("("):
        tail = tail[1:-1]
    items = _items(args[:-1])
    return Schema(name, items, _items(tail), tuple(a for a in items if a.write))


def of(key: str) -> Schema:
    """Return torch's schema of "add.Tensor", "relu" or "aten::relu"; RuntimeError if torch has no such op."""
    name, _, overload = key.partition(".")
    return parse(str(torch._C._get_schema(name if "::" in name else f"aten::{name}", overload)))


_LENGTH = re.compile(r"\[\d+\]")
_CONSTANTS: dict[str, Any] = {"None": None, "True": True, "False": False, "0": 0, "1": 1, "[]": []}


def default_value(arg: Arg) -> Any:
    """Return the default of an argument; None if it has none."""
    if arg.default is None:
        return None
    default = arg.default
    value = _CONSTANTS[default] if default in _CONSTANTS else ast.literal_eval(default)
    length = _LENGTH.search(arg.type)
    if length and isinstance(value, int):  # int[2] padding=0
        return [value] * int(length[0][1:-1])
    return value


@functools.cache
def type_code(kind: str) -> int:
    """Return the encoding of an argument of a type; TypeError if the kernels cannot carry it."""
    plain = _LENGTH.sub("[]", kind.removesuffix("?"))
    if plain not in TYPE_CODES:
        raise TypeError(f"kernels cannot take an argument of type {kind}")
    return TYPE_CODES[plain]
