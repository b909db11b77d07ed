"""``python -m benchmarks.tier_costs``: what graphs cost op by op and compiled, and the rates that predict it.

Each program runs op by op and compiled, in turns, so that both meet the same machine; the least time of each counts.
The figures go to gocore/engine/testdata/tier_costs.csv, in nanoseconds. A test compares `auto` with the better tier
there. The rates are those by which `auto` comes nearest to it; they are printed, for gocore/engine/tier_cost.go.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

import torch_go_xla
from torch_go_xla._core import core
from torch_go_xla.debug import metrics
from torch_go_xla.tiers import set_tier

FIGURES = Path(__file__).resolve().parents[1] / "gocore" / "engine" / "testdata" / "tier_costs.csv"
# The rates, with the work that each is of, in gocore/engine/tier_cost.go; "" for a constant.
COMPILE = {"perProgram": "", "perStatement": "statements", "perLoop": "loops"}
GAIN = {"perCall": "calls", "perByte": "bytes", "perResult": "results"}
RUN = GAIN | {"perProduct": "products"}
LOSS = {"perFunction": "functions"}
TIMES_COMPILE = 4

Program = Callable[[], Any]
# A program's work and its nanoseconds: of the compilation, of a launch op by op, of a compiled one.
Figures = dict[str, int]


def _chain(length: int, size: int, function: Callable[[torch.Tensor], torch.Tensor]) -> Program:
    x = torch.randn(size).to("xla")

    def program() -> Any:
        y = x
        for _ in range(length):
            y = function(y) * 0.5 + x
        return y

    return program


def _norms(length: int, rows: int) -> Program:
    x = torch.randn(rows, 256).to("xla")

    def program() -> Any:
        y = x
        for _ in range(length):
            y = F.layer_norm(torch.softmax(y, -1) + x, (256,))
        return y

    return program


def _inference(model: nn.Module, x: torch.Tensor) -> Program:
    model, x = model.to("xla").eval(), x.to("xla")

    def program() -> Any:
        with torch.no_grad():
            return model(x)

    return program


def _training(model: nn.Module, x: torch.Tensor, classes: int, momentum: bool = True) -> Program:
    model = model.to("xla")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3) if momentum else torch.optim.SGD(model.parameters(), 0.1)
    x = x.to("xla")

    def program() -> Any:
        optimizer.zero_grad()
        y = model(x).flatten(0, -2)
        loss = F.cross_entropy(y, torch.arange(len(y), device="xla") % classes)
        loss.backward()
        optimizer.step()
        return loss

    return program


def _perceptron(width: int, depth: int) -> nn.Module:
    return nn.Sequential(*(m for _ in range(depth) for m in (nn.Linear(width, width), nn.GELU())), nn.Linear(width, 10))


def _transformer(width: int, depth: int) -> nn.Module:
    blocks = (nn.TransformerEncoderLayer(width, 4, 4 * width, 0, batch_first=True) for _ in range(depth))
    return nn.Sequential(nn.Embedding(100, width), *blocks, nn.Linear(width, 100))


def _convolutional(channels: int, depth: int) -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, channels, 3, padding=1)]
    for _ in range(depth):
        layers += [nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, channels, 3, padding=1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))


def _with(
    model: Callable[[], nn.Module], x: Callable[[], torch.Tensor], use: Callable[[nn.Module, torch.Tensor], Program]
) -> Program:
    return use(model(), x())


def programs() -> Iterator[tuple[str, Callable[[], Program]]]:
    """Yield the programs, by name."""
    for length in (1, 10, 100):
        for size in (1 << 10, 1 << 16, 1 << 20):
            yield f"chain {length} {size}, sin", partial(_chain, length, size, torch.sin)
            yield f"chain {length} {size}, tanh", partial(_chain, length, size, torch.tanh)
    for length, rows in ((1, 64), (10, 64), (10, 2048)):
        yield f"norms {length} {rows}", partial(_norms, length, rows)
    for width, depth in ((16, 2), (256, 3), (64, 12), (1024, 3)):
        deep = partial(_with, partial(_perceptron, width, depth), partial(torch.randn, 64, width))
        yield f"perceptron {width} {depth}", partial(deep, partial(_training, classes=10))
        yield f"perceptron {width} {depth}, inference", partial(deep, _inference)
    for width, depth, length in ((16, 1, 8), (64, 2, 32), (128, 2, 64), (64, 6, 16), (256, 4, 64)):
        ids = partial(torch.randint, 0, 100, (4, length))
        deep = partial(_with, partial(_transformer, width, depth), ids)
        yield f"transformer {width} {depth} {length}", partial(deep, partial(_training, classes=100))
        yield f"transformer {width} {depth} {length}, inference", partial(deep, _inference)
    for channels, depth, size in ((8, 2, 16), (32, 4, 32), (64, 8, 32)):
        deep = partial(_with, partial(_convolutional, channels, depth), partial(torch.randn, 8, 3, size, size))
        name = f"convolutional {channels} {depth} {size}"
        yield name, partial(deep, partial(_training, classes=10, momentum=False))
        yield f"{name}, inference", partial(deep, _inference)


def _compiling() -> float:
    """Return the nanoseconds that were spent compiling."""
    return (metrics.metric_data("CompileTime") or (0, 0, []))[1]


def measure(program: Program, rounds: int) -> Figures | None:
    """Return what a program costs in both tiers; None if it is not one graph that both run."""

    def launch(mode: str) -> tuple[int, int]:
        with set_tier(mode):
            wall, used = time.perf_counter_ns(), time.process_time_ns()
            kept = program()
            torch_go_xla.sync(wait=True)
            del kept
            return time.perf_counter_ns() - wall, time.process_time_ns() - used

    for _ in range(3):  # the third is the graph of all later ones
        launch("eager")
    found = core.compilations()[-1]
    before = metrics.counter_value("UncachedCompile") or 0
    clock = _compiling()
    used = launch("compile")[1]
    compiling = min(_compiling() - clock, used)  # the processor's time counts all threads, the clock all processes
    work = found.get("work")
    if work is None or metrics.counter_value("UncachedCompile") != before + 1:
        return None
    times: dict[str, list[int]] = {"eager": [], "compile": []}
    for _ in range(rounds):
        for mode, taken in times.items():
            taken.append(launch(mode)[0])
    return {**work, "compiling": int(compiling), "ops": min(times["eager"]), "compiled": min(times["compile"])}


def worst(row: Figures, rates: dict[str, float]) -> float:
    """Return the largest ratio of auto's total to that of the better tier, over 1 to 100,000 launches."""
    compiling, gain, run, loss = (
        sum(rates[r] * row.get(of, 1) for r, of in group.items()) for group in (COMPILE, GAIN, RUN, LOSS)
    )
    gain -= loss
    # Launches op by op before the compilation.
    last = math.ceil(min(compiling / gain, TIMES_COMPILE * compiling / run)) if gain > 0 else sys.maxsize
    ratios = []
    for n in sorted({*(int(10 ** (k / 4)) for k in range(21)), *([last + 1] if gain > 0 else [])}):
        early = min(n, last)
        auto = early * row["ops"] + (n - early) * row["compiled"] + (row["compiling"] if n > early else 0)
        ratios.append(auto / min(n * row["ops"], n * row["compiled"] + row["compiling"]))
    return max(ratios)


def fit(rows: list[Figures]) -> dict[str, float]:
    """Return the rates by which `auto` comes nearest to the better tier over all programs.

    One rate after the other is scaled as long as that helps. The steps grow smaller.
    """

    def loss(rates: dict[str, float]) -> float:
        return sum(math.log(worst(r, rates)) ** 4 for r in rows)

    rates = {
        **{"perProgram": 2e7, "perStatement": 2e5, "perLoop": 5e6},
        **{"perCall": 3e3, "perByte": 0.1, "perResult": 0.2, "perProduct": 0.02, "perFunction": 3},
    }
    best = loss(rates)
    step = 4.0
    while step > 1.05:
        before = best
        for name, factor in itertools.product(rates, (step, 1 / step)):
            tried = rates | {name: rates[name] * factor}
            if (found := loss(tried)) < best:
                rates, best = tried, found
        if best == before:
            step = math.sqrt(step)
    return rates


def main() -> None:
    """Measure, write the figures, fit, and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tier_costs", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--fit", action="store_true", help="fit the figures that are there; measure nothing")
    options = parser.parse_args()
    rows: dict[str, Figures] = {}
    if options.fit:
        with FIGURES.open() as file:
            rows = {r.pop("name"): {k: int(v) for k, v in r.items()} for r in csv.DictReader(file)}
    else:
        torch.manual_seed(0)
        for name, make in programs():
            if row := measure(make(), options.rounds):
                rows[name] = row
                print(name, row, flush=True)
        FIGURES.parent.mkdir(exist_ok=True)
        with FIGURES.open("w", newline="") as file:
            out = csv.writer(file, lineterminator="\n")
            out.writerow(["name", *next(iter(rows.values()))])
            out.writerows([name, *row.values()] for name, row in rows.items())
    rates = fit(list(rows.values()))
    for name, row in rows.items():
        times = " ".join(f"{row[k] / 1e6:.3f}" for k in ("compiling", "ops", "compiled"))
        print(f"{name}: compiling, ops, compiled in ms: {times}; worst ratio of auto {worst(row, rates):.2f}")
    print(" ".join(f"{k} {v:.4g}" for k, v in rates.items()))


if __name__ == "__main__":
    main()
