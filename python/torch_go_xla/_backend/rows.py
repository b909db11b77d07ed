"""The rows of the ops table as the core states them; see gocore/ops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Shortcut:
    """The names by which Python calls an op with its operands only; see ops.Shortcut."""

    names: str
    number: str
    rank: int


@dataclass(frozen=True)
class Row:
    """One op: its overload and its schema, and what else its registration has to know."""

    name: str
    schema: str
    since: str = ""
    shortcut: Shortcut | None = None
    also: str = ""
    torch: bool = False


def read(table: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return the rows of what the core tells of its ops, in the order of their numbers."""
    return [Row(**{**row, "shortcut": row["shortcut"] and Shortcut(**row["shortcut"])}) for row in table]
