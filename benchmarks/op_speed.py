"""``python -m benchmarks.op_speed [PATTERN ...] [--samples N] [--write]``: ops beside eager torch, and JAX.

Each subject has its process; they take turns, so that all meet the same machine. A row is an op, a type and a size,
with the medians. The rows are sorted by the ratio to the best peer. ``--write`` writes docs/op_speed.md.
"""

from __future__ import annotations

import argparse
import fnmatch
import math
import os
import statistics
import sys
from contextlib import ExitStack
from pathlib import Path

from . import op_cases, report, subjects
from .clients import Client, limit_cores, started

_PAGE = Path(__file__).resolve().parents[1] / "docs" / "op_speed.md"
_SUBJECTS = (subjects.REFERENCE, "jax", subjects.OURS)

# Seconds by subject.
Times = dict[str, float]


def measure(key: str, clients: list[Client], samples: int) -> Times:
    """Return the median of each subject that can do the op."""
    taken: dict[str, list[float]] = {}
    for c in clients:
        if c.name == "jax" and key not in op_cases.BY_JAX:
            continue
        try:
            c.ask(open=key, quick=False)
            c.ask(sample=True)  # warms up
            taken[c.name] = []
        except RuntimeError as e:
            print(f"{key}: {c.name}: {e}", file=sys.stderr)
    opened = [c for c in clients if c.name in taken]
    for _ in range(samples):
        for c in opened:
            taken[c.name].append(c.ask(sample=True))
    for c in opened:
        c.ask(close=True)
    return {name: statistics.median(times) for name, times in taken.items()}


def ratio(times: Times) -> float | None:
    """Return our time by the best peer's; None where one is missing."""
    ours = times.get(subjects.OURS)
    peers = [t for name, t in times.items() if name != subjects.OURS]
    return ours / min(peers) if ours is not None and peers else None


def page(rows: dict[str, Times]) -> str:
    """Return the table, the worst ratio first, under its geometric mean."""
    known = {key: r for key, times in rows.items() if (r := ratio(times)) is not None}
    mean = math.exp(statistics.fmean(math.log(r) for r in known.values())) if known else math.nan
    lines = [
        f"{len(known)} pairs: {sum(r <= 1 for r in known.values())} at or ahead of the best peer, "
        f"{sum(r > 2 for r in known.values())} behind by more than 2 ×. Geometric mean {mean:.2f} ×.",
        "",
        "| op, type, operands | torch, ms | JAX, ms | torch_go_xla, ms | × best |",
        "|---|--:|--:|--:|--:|",
    ]
    for key in sorted(known, key=lambda k: -known[k]):
        figures = (f"{rows[key][name] * 1e3:.3f}" if name in rows[key] else "" for name in _SUBJECTS)
        lines.append(f"| {key} | {' | '.join(figures)} | {known[key]:.2f} |")
    return "\n".join(lines) + "\n"


_HEAD = """# Speed of ops

Written by `make op-speed`: do not edit. Each op runs on its own: on the device as one program,
which is recorded and launched again for each call; in JAX jitted. The figures are medians of
{samples} samples, in processes that take turns, {threads} threads each. A process is stopped while
another one is measured. The load of the machine ({processor}) before the run was {load:.1f}.

"""


def main() -> None:
    """Measure, print, and write the page if that is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.op_speed", description=__doc__)
    parser.add_argument("patterns", nargs="*", default=["*"], help="names of cases, as shell patterns")
    parser.add_argument("--samples", type=int, default=15)
    parser.add_argument("--write", action="store_true", help="write docs/op_speed.md; all cases")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    options = parser.parse_args()
    keys = [k for k in op_cases.OPS if options.write or any(fnmatch.fnmatch(k, p) for p in options.patterns)]
    if options.list:
        print("\n".join(keys))
        return
    load, threads = os.getloadavg()[0], limit_cores()
    rows: dict[str, Times] = {}
    with ExitStack() as stack:
        clients = []
        for name in _SUBJECTS:
            try:
                clients.append(stack.enter_context(started(name, subjects.python(name))))
            except LookupError as e:
                print(f"{name} is left out: {e}", file=sys.stderr)
        for key in keys:
            rows[key] = measure(key, clients, options.samples)
            r = ratio(rows[key])
            print(f"{key}: {'' if r is None else f'{r:.2f} ×'}", file=sys.stderr, flush=True)
    text = page(rows)
    print(text)
    if options.write:
        processor = report.machine().partition(",")[0]
        _PAGE.write_text(_HEAD.format(samples=options.samples, threads=threads, processor=processor, load=load) + text)


if __name__ == "__main__":
    main()
