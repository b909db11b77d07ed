"""Tables as a notebook shows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

# Of device number n; black text is readable on all.
_COLORS = ("#a6cee3", "#fdbf6f", "#b2df8a", "#fb9a99", "#cab2d6", "#ffff99", "#8dd3c7", "#e5c494")
_CELL = "border:1px solid #888;padding:6px 14px;text-align:center;color:#000;background:"


def table(rows: Iterable[Sequence[object]], head: Sequence[str] = (), caption: str = "") -> str:
    """Return a table; texts are escaped.

    Args:
        rows: what the cells show.
        head: what the columns are, if it has to be said.
        caption: a line above it.
    """
    above = f"<b>{escape(caption)}</b>" if caption else ""
    first = "<tr>" + "".join(f"<th>{escape(name)}</th>" for name in head) + "</tr>" if head else ""
    cells = ("".join(f"<td>{escape(str(cell))}</td>" for cell in row) for row in rows)
    return f"{above}<table>{first}{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def grid(rows: Iterable[Sequence[tuple[int, str]]], caption: str = "") -> str:
    """Return tiles in the colors of devices.

    Args:
        rows: the number of a device and a text for each tile.
        caption: a line above them.
    """
    above = f"<div>{escape(caption)}</div>" if caption else ""
    body = "".join(
        "<tr>"
        + "".join(f'<td style="{_CELL}{_COLORS[n % len(_COLORS)]}">{escape(text)}</td>' for n, text in row)
        + "</tr>"
        for row in rows
    )
    return f'{above}<table style="border-collapse:collapse">{body}</table>'
