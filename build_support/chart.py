"""Draws the chart of README.md from its table of training steps: ``python -m build_support chart``."""

from __future__ import annotations

import re
from html import escape

from . import ROOT
from .toolchain import BuildError

PICTURE = ROOT / "docs" / "training-steps.svg"

_COLORS = {"torch_go_xla": "#0969da", "torch eager": "#8c959f", "torch_xla 2.9": "#bf8700", "JAX": "#8250df"}
# Sizes in px.
_LEFT, _WIDTH, _BAR, _GAP, _TOP = 120, 420, 16, 18, 34


def rows(readme: str) -> tuple[list[str], dict[str, list[float | None]]]:
    """Return the subjects of the table, and the milliseconds of each case; None where it was not measured.

    Args:
        readme: the text of README.md.
    """
    found = re.search(r"^\| training step on the CPU, ms \|(.*)\|\n\|[-|]+\|\n((?:\|.*\|\n)+)", readme, re.MULTILINE)
    if found is None:
        raise BuildError("README.md has no table of training steps")
    cases: dict[str, list[float | None]] = {}
    for line in found[2].splitlines():
        name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        numbers = (re.match(r"[\d.]+", cell) for cell in cells)
        cases[name] = [float(number[0]) if number else None for number in numbers]
    return [name.strip() for name in found[1].split("|")], cases


def drawn(readme: str) -> str:
    """Return the chart as SVG: the times of each case, each relative to eager torch."""
    subjects, cases = rows(readme)
    base = subjects.index("torch eager")
    ratios = [ms / times[base] for times in cases.values() for ms in times if ms and times[base]]  # type: ignore[operator]
    scale = (_WIDTH - 60) / max(ratios)
    parts: list[str] = []
    y = _TOP
    for case, times in cases.items():
        parts.append(f'<text x="{_LEFT - 10}" y="{y + 26}" text-anchor="end" font-weight="bold">{escape(case)}</text>')
        for subject, ms in zip(subjects, times, strict=True):
            if ms is None:
                continue
            width = scale * ms / (times[base] or 1)
            parts.append(
                f'<rect x="{_LEFT}" y="{y}" width="{width:.0f}" height="{_BAR - 3}" fill="{_COLORS[subject]}"/>'
            )
            parts.append(f'<text x="{_LEFT + width + 5:.0f}" y="{y + 11}">{ms:g} ms</text>')
            y += _BAR
        y += _GAP
    x = _LEFT
    for subject in subjects:
        parts.append(f'<rect x="{x}" y="10" width="11" height="11" fill="{_COLORS[subject]}"/>')
        parts.append(f'<text x="{x + 16}" y="20">{escape(subject)}</text>')
        x += 34 + 7 * len(subject)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 20}" height="{y}"'
    style = 'font-family="system-ui, sans-serif" font-size="12"'
    return "\n".join([f"{head} {style}>", '<rect width="100%" height="100%" fill="#fff"/>', *parts, "</svg>", ""])


def write() -> None:
    """Write the chart."""
    PICTURE.write_text(drawn((ROOT / "README.md").read_text(encoding="utf-8")), encoding="utf-8")
