"""Kernels of the ``_foreach_*`` ops: a row run once per element of the lists, in one dispatch.

``_foreach_addcmul_.ScalarList(Tensor(a!)[] self, Tensor[] tensor1, Tensor[] tensor2, Scalar[] scalars)`` is
``addcmul(self, tensor1, tensor2, value=scalar)`` for each element, and so for all of them: lists become
their elements, the rest stays. The row is the overload of the same name that takes these arguments in
this order; where the name is another one, `_ROWS` has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .._vocabulary import NEW, WRITE
from .plan import Plan, params
from .schema import REQUIRED, Arg, Schema, type_code

# Rows for an op, in order of preference. A constant in a dict is an argument that the op does not give.
_ROWS: dict[str, tuple[tuple[str, dict[str, Any]], ...]] = {
    "norm": (("linalg_vector_norm", {}),),
    "zero": (("zero", {}), ("fill.Scalar", {"value": 0})),
    "maximum.Scalar": (("clamp_min", {}),),
    "maximum.ScalarList": (("clamp_min", {}),),
    "minimum.Scalar": (("clamp_max", {}),),
    "minimum.ScalarList": (("clamp_max", {}),),
    "clamp_min.List": (("clamp_min.Tensor", {}), ("maximum", {})),
    "clamp_max.List": (("clamp_max.Tensor", {}), ("minimum", {})),
}

# A tensor that holds one number per element: torch's own kernel turns it into a list and calls again.
_NUMBERS_IN_A_TENSOR = {"addcmul.Tensor", "addcdiv.Tensor"}


def _element(a: Arg) -> str:
    return a.type.removesuffix("[]")


def _fits(given: str, wanted: str) -> bool:
    """Tell whether an element of a type may stand in a row's place; a Tensor place takes numbers too."""
    wanted = wanted.removesuffix("?")
    return given.removesuffix("?") == wanted or (given == "Scalar" and wanted == "Tensor")


def _assign(op: Schema, row: Schema, constants: Mapping[str, Any]) -> list[tuple[int, int, bool, Any]] | None:
    """Give every argument of the row an argument of op: one of its name, else the next in order."""
    free = {a.name: i for i, a in enumerate(op.args)}
    names = {a.name for a in row.args}
    order = [i for i, a in enumerate(op.args) if a.name not in names]
    result: list[tuple[int, int, bool, Any]] = []
    for a in row.args:
        if a.name in constants:
            result.append((-1, type_code(a.type), False, constants[a.name]))
            continue
        p = free.pop(a.name, -1)
        if p < 0 and order and _fits(_element(op.args[order[0]]), a.type):
            p = order.pop(0)
        if p < 0:
            if a.default is REQUIRED:
                return None
            result.append((-1, type_code(a.type), False, a.default))
            continue
        given = op.args[p]
        if not _fits(_element(given), a.type):
            return None
        value = None if given.default is REQUIRED else given.default
        result.append((p, type_code(a.type), given.type.endswith("[]"), value))
    return result if not order else None


def _candidates(
    op: Schema, rows: Mapping[str, Schema], overloads: Mapping[str, list[str]]
) -> Iterator[tuple[Schema, dict[str, Any]]]:
    base = op.base.removeprefix("_foreach_").removesuffix("_")
    named = f"{base}.{op.overload}"
    for name, constants in _ROWS.get(named, _ROWS.get(base, ())):
        if name in rows:
            yield rows[name], constants
    # A row that takes a number as such is better than one that takes it in a Tensor place.
    same = [rows[name] for name in overloads.get(base, ())]
    numbers = {"Scalar", "Scalar[]"} & {a.type for a in op.args}
    same.sort(key=lambda r: not any(a.type == "Scalar" and a.default is REQUIRED for a in r.args) if numbers else 0)
    for row in same:
        yield row, {}


def plan(op: Schema, rows: Mapping[str, Schema], overloads: Mapping[str, list[str]]) -> tuple[Schema, Plan] | None:
    """Plan a foreach op; None if the table has no row for it. overloads lists the rows by base name."""
    if f"{op.base.removeprefix('_foreach_').removesuffix('_')}.{op.overload}" in _NUMBERS_IN_A_TENSOR:
        return None
    writes = bool(op.written)
    if writes and op.written != (op.args[0],):
        return None
    for row, constants in _candidates(op, rows, overloads):
        args = _assign(op, row, constants) if len(row.returns) == 1 and row.returns[0].type == "Tensor" else None
        if args is not None and any(each for _, _, each, _ in args):
            destination = (WRITE, 0) if writes else (NEW, 0)
            return row, Plan(params(op), args, [destination], None if writes else [], each=True)
    return None
