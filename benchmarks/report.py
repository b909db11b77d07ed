"""Results as a table, as JSON and as a chart.

``results.json`` has every run of a case with its date and samples, so that a run of some cases adds to those before.
"""

from __future__ import annotations

import json
import math
import platform
import statistics
import time
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

from .cases import BEST, SPECS, Target
from .subjects import OURS, REFERENCE, names

# A run of each case: "when", "load" (of the machine), and "times" by subject.
Runs = dict[str, dict[str, Any]]

# Seconds (bytes, for a case in MB) by case and subject.
Times = dict[str, dict[str, list[float]]]

_SCALE = {"us": 1e6, "ms": 1e3, "s": 1.0, "MB": 1e-6}
_BAR, _LABEL, _WIDTH = 16, 330, 920
_COLORS = ("#4878cf", "#d65f5f", "#6acc65", "#b47cc7", "#c4ad66", "#77bedb", "#8c8c8c")


def figures(times: Times) -> dict[str, dict[str, dict[str, Any]]]:
    """Return median, spread (between quartiles), best and the ratios to the reference, for every case and subject."""
    result: dict[str, dict[str, dict[str, Any]]] = {}
    for case, by_subject in times.items():
        unit = SPECS[case].unit
        base = by_subject.get(REFERENCE)
        result[case] = {
            subject: {
                "unit": unit,
                "median": statistics.median(samples) * _SCALE[unit],
                "spread": _spread(samples) * _SCALE[unit],
                "best": min(samples) * _SCALE[unit],
                "ratio": _ratio(statistics.median, samples, base),
                "ratio_of_bests": _ratio(min, samples, base),
                "samples": len(samples),
            }
            for subject, samples in by_subject.items()
            if samples
        }
    return result


def _spread(samples: list[float]) -> float:
    if len(samples) < 2:
        return 0.0
    lower, _, upper = statistics.quantiles(samples, n=4, method="inclusive")
    return upper - lower


def _ratio(of: Callable[[list[float]], float], samples: list[float], base: list[float] | None) -> float | None:
    if not base or min(base) <= 0 or min(samples) <= 0:  # memory beyond a result: none
        return None
    return of(samples) / of(base)


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def _judge(target: Target, by_subject: dict[str, dict[str, Any]]) -> str:
    """Return a figure's target and, where both are measured, whether it is reached."""
    if OURS not in by_subject:
        return str(target)
    ours = by_subject[OURS]["median"]
    others = {subject: f["median"] for subject, f in by_subject.items() if subject != OURS}
    if target.of == BEST and others:
        others[BEST] = min(others.values())
    if target.of and target.of not in others:
        return str(target)
    is_more = not target.of or target.more
    reached = ours - others.get(target.of, 0.0) if is_more else ours / others[target.of]
    sign = "reached" if reached <= target.limit else "**not reached**"
    return f"{target}: {_number(reached)}, {sign}"


def _ratios(f: dict[str, Any]) -> str:
    return f"{f['ratio']:.2f}x ({f['ratio_of_bests']:.2f}x)"


def row(case: str, by_subject: dict[str, dict[str, Any]], subjects: list[str], quick: bool) -> str:
    """Return a line of the Markdown table; a quick run is not judged."""
    cells = [f"{case}: {SPECS[case].title}", SPECS[case].unit]
    for subject in subjects:
        f = by_subject.get(subject)
        if f is None:
            cells.append("")
            continue
        ratios = "" if subject == REFERENCE or f["ratio"] is None else f", **{_ratios(f)}**"
        cells.append(f"{_number(f['median'])} ± {_number(f['spread'] / 2)} ({_number(f['best'])}){ratios}")
    if not quick:
        cells.append("; ".join(_judge(target, by_subject) for target in SPECS[case].targets))
    return "| " + " | ".join(cells) + " |"


def head(subjects: list[str], quick: bool) -> str:
    """Return the head of the Markdown table."""
    names = ["case", "unit", *subjects, *([] if quick else [f"target of {OURS}"])]
    return "| " + " | ".join(names) + " |\n" + "|---" * len(names) + "|"


def chart(results: dict[str, dict[str, dict[str, Any]]], subjects: list[str]) -> str:
    """Return an SVG: for each case a bar per subject, as long as the logarithm of its ratio to the reference."""
    drawn = [s for s in subjects if s != REFERENCE]
    ratios = [f["ratio"] for c in results.values() for s, f in c.items() if s != REFERENCE and f["ratio"]]
    most = max((abs(math.log2(r)) for r in ratios), default=1.0) or 1.0
    middle, half = (_LABEL + _WIDTH) / 2, (_WIDTH - _LABEL) / 2 - 80
    parts, y = [], 40
    for case, by_subject in results.items():
        parts.append(f'<text x="{_LABEL - 10}" y="{y + 12}" text-anchor="end">{escape(SPECS[case].title[:54])}</text>')
        for k, subject in enumerate(drawn):
            f = by_subject.get(subject)
            if not f or not f["ratio"]:
                continue
            length = half * math.log2(f["ratio"]) / most
            x, anchor, at = (
                (middle, "start", middle + length + 4) if length >= 0 else (middle + length, "end", middle + length - 4)
            )
            parts.append(
                f'<rect x="{x:.1f}" y="{y}" width="{abs(length):.1f}" height="{_BAR - 3}" '
                f'fill="{_COLORS[k % len(_COLORS)]}"/>'
                f'<text x="{at:.1f}" y="{y + 11}" text-anchor="{anchor}">{_ratios(f)}</text>'
            )
            y += _BAR
        y += 8
    legend = "".join(
        f'<rect x="{_LABEL + 160 * k}" y="8" width="12" height="12" fill="{_COLORS[k % len(_COLORS)]}"/>'
        f'<text x="{_LABEL + 160 * k + 18}" y="18">{escape(s)}</text>'
        for k, s in enumerate(drawn)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{y + 10}" '
        'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="#fff"/>'
        f'{legend}<text x="10" y="18">median / median of {REFERENCE} (bests)</text>'
        f'<line x1="{middle}" y1="30" x2="{middle}" y2="{y}" stroke="#333"/>{"".join(parts)}</svg>\n'
    )


def read(folder: Path, quick: bool) -> Runs:
    """Return the runs of earlier results of this kind; none if there are none."""
    file = folder / "results.json"
    found = json.loads(file.read_text()) if file.exists() else {}
    return dict(found["runs"]) if found.get("quick") == quick else {}


def run(times: dict[str, list[float]], load: float) -> dict[str, Any]:
    """Return the run of a case, of now."""
    return {"when": time.strftime("%Y-%m-%d %H:%M"), "load": round(load, 2), "times": times}


def machine() -> str:
    """Return what the figures depend on of this machine."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    model = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.processor())
    return f"{model}, {platform.platform()}"


def write(folder: Path, runs: Runs, quick: bool) -> None:
    """Write results.json, results.md and results.svg; OSError if that fails."""
    runs = {case: runs[case] for case in SPECS if case in runs}
    subjects = [name for name in names() if any(each["times"].get(name) for each in runs.values())]
    results = figures({case: each["times"] for case, each in runs.items()})
    folder.mkdir(parents=True, exist_ok=True)
    about = {"machine": machine(), "quick": quick, "runs": runs, "results": results}
    (folder / "results.json").write_text(json.dumps(about, indent=1))
    dates = [each["when"] for each in runs.values()]
    lines = [
        f"Median ± half the distance between the quartiles (best), **ratio of medians (of bests)** to {REFERENCE}.",
        f"{min(dates)} to {max(dates)}{', quick' if quick else ''}; {machine()}.",
        "",
        head(subjects, quick),
        *(row(case, by_subject, subjects, quick) for case, by_subject in results.items()),
    ]
    (folder / "results.md").write_text("\n".join(lines) + "\n")
    (folder / "results.svg").write_text(chart(results, subjects))
