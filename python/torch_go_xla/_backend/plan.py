"""From a row of the op table and a schema of torch to the plan of a kernel.

A row is a functional overload. Torch's schemas say how the other forms of the op relate to it. An
in-place form writes the result to ``self``, an ``out=`` form to its out arguments. A form that updates
arguments on the side (``_native_batch_norm_legit``) has a functional twin, which returns the new values
behind its results. Nothing about a single op is stated here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .._vocabulary import NEW, RESIZABLE, WRITE
from .schema import REQUIRED, Arg, Schema, type_code

# Arguments that say what tensor to make; an out= form has none of them, its out argument says it.
_FACTORY = {"dtype", "layout", "device", "pin_memory"}


class Plan(NamedTuple):
    """What `_goxlafast.kernel` takes, less name and row."""

    params: list[tuple[str, bool, bool]]  # name, keyword only, required
    args: list[tuple[int, int, bool, Any]]  # parameter or -1, type, element of a list, default or constant
    destinations: list[tuple[int, int]]  # what becomes of a result, and the parameter that it is written to
    returns: Any  # see return_spec
    each: bool = False


def params(op: Schema) -> list[tuple[str, bool, bool]]:
    """Return the parameters of an overload."""
    return [(a.name, a.keyword_only, a.default is REQUIRED) for a in op.args]


def match_row(row: Schema, op: Schema, drop: tuple[Arg, ...]) -> bool:
    """Tell whether the arguments of op, less those in drop, are the row's (less a factory's own)."""
    given = [a for a in op.args if a not in drop] if drop else op.args
    wanted: Sequence[Arg] = row.args
    if len(given) != len(wanted):
        wanted = [a for a in wanted if a.name not in _FACTORY]
    # By name: polygamma_ has the arguments of polygamma in another order.
    return len(given) == len(wanted) and {a[:2] for a in given} == {a[:2] for a in wanted}


def row_args(row: Schema, op: Schema, out: int | None = None) -> list[tuple[int, int, bool, Any]]:
    """Return where the row's arguments come from; out is the parameter that stands for a factory's."""
    place = {a.name: i for i, a in enumerate(op.args)}
    result = []
    for a in row.args:
        p = place.get(a.name, -1)
        if p < 0 and out is not None and a.name in ("dtype", "device"):
            p = out
        default = op.args[p].default if p >= 0 else a.default
        result.append((p, type_code(a.type), False, None if default is REQUIRED else default))
    return result


def return_spec(op: Schema, first_new: int = 0) -> Any:
    """Return what op returns: None, a number, a tuple of numbers, or [] for a list of all results.

    A number r counts the row's results from 0, -1-p is parameter p itself.
    """
    if not op.returns:
        return None
    if len(op.returns) == 1 and op.returns[0].type.startswith("Tensor["):
        return []
    numbers = []
    fresh = first_new
    for r in op.returns:
        if r.alias:
            numbers.append(-1 - next(i for i, a in enumerate(op.args) if a.alias == r.alias))
        else:
            numbers.append(fresh)
            fresh += 1
    return numbers[0] if len(numbers) == 1 else tuple(numbers)


def functional(row: Schema) -> Plan:
    """Plan the row's own overload."""
    spec = return_spec(row)
    destinations = [] if spec == [] else [(NEW, 0)] * len(row.returns)
    return Plan(params(row), row_args(row, row), destinations, spec)


def in_place(row: Schema, op: Schema) -> Plan | None:
    """Plan ``add_`` from ``add``: all results go to the arguments that op writes, in order."""
    if not op.written or len(op.written) != len(row.returns) or not match_row(row, op, ()):
        return None
    return Plan(params(op), row_args(row, op), _writes(op, WRITE), return_spec(op))


def out_form(row: Schema, op: Schema) -> Plan | None:
    """Plan ``add.out`` from ``add.Tensor``."""
    outs = op.written
    if not outs or len(outs) != len(row.returns) or any(not a.keyword_only or a.type != "Tensor" for a in outs):
        return None
    if not match_row(row, op, outs):
        return None
    args = row_args(row, op, op.args.index(outs[0]))
    return Plan(params(op), args, _writes(op, WRITE | RESIZABLE), return_spec(op))


def updating(row: Schema, op: Schema) -> Plan | None:
    """Plan ``_native_batch_norm_legit`` from ``…_functional``, whose last results are the updated arguments."""
    fresh = [r for r in op.returns if not r.alias]
    if len(fresh) + len(op.written) != len(row.returns) or not match_row(row, op, ()):
        return None
    if any(a.type != "Tensor" for a in op.written):
        return None
    return Plan(params(op), row_args(row, op), [(NEW, 0)] * len(fresh) + _writes(op, WRITE), return_spec(op))


def _writes(op: Schema, mode: int) -> list[tuple[int, int]]:
    return [(mode, op.args.index(a)) for a in op.written]
