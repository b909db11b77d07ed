"""Torch's function schemas as plain data, which is compared and looked up often."""

from __future__ import annotations

import functools
import re
from typing import Any, NamedTuple

import torch

from .._vocabulary import TYPE_CODES

# The default of an argument that has none.
REQUIRED = object()


class Arg(NamedTuple):
    """One argument, or one result."""

    type: str  # without alias annotation: "Tensor", "int[2]", "Scalar?"
    name: str  # with the type, what makes two arguments the same
    alias: str  # letter of the alias set, "*" for the elements of a list, "" for none
    write: bool
    keyword_only: bool
    default: Any  # REQUIRED if there is none


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


_types: dict[tuple[str, int | None], str] = {}  # a cache: threads that miss at once add equal entries


def _type(kind: Any, length: int | None) -> str:
    """Return a type as a schema states it, but for symbolic sizes, which torch reads as numbers."""
    key = (str(kind), length)
    if key not in _types:
        match kind.kind():
            case "OptionalType":
                _types[key] = _type(kind.getElementType(), length) + "?"
            case "ListType":
                _types[key] = f"{_type(kind.getElementType(), None)}[{'' if length is None else length}]"
            case other:
                _types[key] = "Scalar" if other == "NumberType" else key[0]
    return _types[key]


def _arg(a: Any) -> Arg:
    info = a.alias_info
    alias = "" if info is None else "|".join(sorted(info.before_set)) or "*"  # torch tells no letter of a list
    written = info is not None and info.is_write
    default = a.default_value if a.has_default_value() else REQUIRED
    return Arg(_type(a.real_type, a.N), a.name, alias, written, a.kwarg_only, default)


def read(schema: Any) -> Schema:
    """Return what torch's schema says."""
    name = schema.name + (f".{schema.overload_name}" if schema.overload_name else "")
    items = tuple(map(_arg, schema.arguments))
    return Schema(name, items, tuple(map(_arg, schema.returns)), tuple(a for a in items if a.write))


@functools.cache
def parse(text: str) -> Schema:
    """Return the schema of an op that torch does not have yet; RuntimeError if the text is not one."""
    return read(torch._C.parse_schema(text))


@functools.cache
def of(key: str) -> Schema:
    """Return torch's schema of "add.Tensor", "relu" or "aten::relu"; RuntimeError if torch has no such op."""
    name, _, overload = key.partition(".")
    return read(torch._C._get_schema(name if "::" in name else f"aten::{name}", overload))


_LENGTH = re.compile(r"\[\d+\]")


@functools.cache
def type_code(kind: str) -> int:
    """Return the encoding of an argument of a type; TypeError if the kernels cannot carry it."""
    plain = _LENGTH.sub("[]", kind.removesuffix("?"))
    if plain not in TYPE_CODES:
        raise TypeError(f"kernels cannot take an argument of type {kind}")
    return TYPE_CODES[plain]
