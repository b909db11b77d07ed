"""``python -m benchmarks.growth [--results FOLDER]``: how time grows with the size of a graph and with the devices.

Records chains of 10 to 100,000 ops on four numbers, and runs those of up to 1,000 as steps compiled before, with their
plans; and runs a step of 100 ops sharded over 1 to 8 CPU devices by SPMD. Prints a table, and writes growth.json,
growth.md and growth.svg. Plans of up to 100,000 nodes are measured by ``go test -bench Plan ./gocore/lazy``.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_SIZES = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
_COMPILED = 1_000
_DEVICES = (1, 2, 4, 8)
_ROUNDS = 5
_COLORS = {"record": "#4878cf", "plan": "#d65f5f", "cached step": "#6acc65"}


def _time(rounds: int, work: Callable[..., Any], *args: Any) -> float:
    """Return the median seconds of a call."""

    def once() -> float:
        start = time.perf_counter()
        work(*args)
        return time.perf_counter() - start

    return statistics.median(once() for _ in range(rounds))


def _graphs() -> list[dict[str, float]]:
    """Return, by number of ops, the µs that recording, planning and a cached step take."""
    import torch

    import torch_go_xla
    import torch_go_xla.debug.metrics as met
    from torch_go_xla.tiers import set_tier

    set_tier("compile")
    start = torch.zeros(2, 2, device="xla")
    torch_go_xla.sync(wait=True)

    def chain(n: int) -> torch.Tensor:
        x = start
        for _ in range(n):
            x = x + 1
        return x

    def step(n: int) -> None:
        kept = chain(n)
        torch_go_xla.sync(wait=True)
        del kept

    rows = []
    for n in _SIZES:
        row: dict[str, float] = {"ops": n, "record": _time(_ROUNDS, chain, n)}
        if n <= _COMPILED:
            step(n)
            met.clear_metrics()
            row["cached step"] = _time(4 * _ROUNDS, step, n)
            data = met.metric_data("PlanTime")
            assert data is not None
            row["plan"] = statistics.median(sample for _, sample in data[2]) * 1e-9
        rows.append({key: value if key == "ops" else value * 1e6 for key, value in row.items()})
    return rows


def _spmd() -> float:
    """Return the µs of a cached step of 100 ops sharded over the devices of this process."""
    import torch

    import torch_go_xla
    import torch_go_xla.distributed.spmd as xs
    import torch_go_xla.runtime as xr

    xr.use_spmd()
    count = xr.global_runtime_device_count()
    x = torch.zeros(64, 64).to("xla")
    xs.mark_sharding(x, xs.Mesh(list(range(count)), (count,), ("data",)), ("data", None))

    def step() -> None:
        y = x
        for _ in range(50):
            y = y * 1.5 + 0.5
        torch_go_xla.sync(wait=True)
        del y

    for _ in range(3):
        step()
    return _time(10 * _ROUNDS, step) * 1e6


def _devices() -> list[dict[str, float]]:
    rows = []
    for count in _DEVICES:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.growth", "--spmd"], env={**os.environ, "CPU_NUM_DEVICES": str(count)},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        rows.append({"devices": count, "step": float(done.stdout)})
    return rows


def _chart(rows: list[dict[str, float]]) -> str:
    """Return an SVG of µs by ops, both as logarithms."""
    left, top, width, height = 60, 30, 560, 360
    lows, highs = (min(r["plan"] for r in rows if "plan" in r), max(r["record"] for r in rows))

    def x(n: float) -> float:
        return left + width * math.log10(n / _SIZES[0]) / math.log10(_SIZES[-1] / _SIZES[0])

    def y(value: float) -> float:
        return top + height * (1 - math.log10(value / lows) / math.log10(highs / lows))

    parts = [f'<text x="{x(n):.0f}" y="{top + height + 18}" text-anchor="middle">{n}</text>' for n in _SIZES]
    for power in range(math.ceil(math.log10(lows)), math.floor(math.log10(highs)) + 1):
        at = y(10**power)
        parts.append(f'<line x1="{left}" x2="{left + width}" y1="{at:.0f}" y2="{at:.0f}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 6}" y="{at + 4:.0f}" text-anchor="end">{10**power:g}</text>')
    for k, (name, color) in enumerate(_COLORS.items()):
        points = " ".join(f"{x(r['ops']):.1f},{y(r[name]):.1f}" for r in rows if name in r)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts.append(f'<text x="{left + 10 + 100 * k}" y="18" fill="{color}">{name}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 40}" height="{top + height + 40}" '
        'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="#fff"/>'
        f'{"".join(parts)}<text x="{left + width}" y="{top + height + 34}" text-anchor="end">ops; µs</text></svg>\n'
    )


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--spmd", action="store_true", help=argparse.SUPPRESS)  # the process of one device count
    options = parser.parse_args()
    if options.spmd:
        print(_spmd())
        return
    graphs, devices = _graphs(), _devices()
    lines = ["| ops | recording, µs | per op | plan, µs | per op | cached step, µs |", "|---" * 6 + "|"]
    for r in graphs:
        n, record = r["ops"], r["record"]
        cells = [f"{n:.0f}", f"{record:.0f}", f"{record / n:.2f}"]
        cells += [f"{r['plan']:.1f}", f"{r['plan'] / n:.3f}", f"{r['cached step']:.0f}"] if "plan" in r else [""] * 3
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "| devices | step of 100 ops, µs |", "|---|---|"]
    lines += [f"| {r['devices']:.0f} | {r['step']:.0f} |" for r in devices]
    print("\n".join(lines))
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "growth.md").write_text("\n".join(lines) + "\n")
    (options.results / "growth.json").write_text(json.dumps({"graphs": graphs, "devices": devices}, indent=1))
    (options.results / "growth.svg").write_text(_chart(graphs))


if __name__ == "__main__":
    main()
