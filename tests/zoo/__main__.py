"""Runs the zoo: ``python -m tests.zoo [NAME …]``; ``--write`` writes docs/models.md."""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

from .check import COMPARED, STEADY, Report, run
from .rows import ROWS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "models.md"

_HEAD = """# Models

Written by `make models` on {date}: do not edit.
Versions: {versions}.

Each model has random weights and a small configuration. It takes {compared} training steps on xla
and, in float64, on torch's CPU. Losses, gradients, and at the end all parameters and buffers are
compared. {steady} more steps with new data must compile nothing. Then the model is evaluated.
Models that generate text do so twice with a static key-value cache, and must give the CPU's text,
token by token. Nothing may run on the CPU meanwhile.

* *compilations*: those of the first {compared} steps (the first creates the optimizer's state) +
  those of the steady steps.
* *graphs*: programs run in a steady step. There are several if the model reads a value, such as
  whether a mask is needed.
* *error*: the largest one, of float32 against float64, relative to the tensor's largest value.

ResNets are in float64 on both sides. In float32, rounding decides which ReLU is at zero, on either
device. Mixtral is in float32 on both sides.

| model | parameters | compilations | graphs | fallbacks | error | generates |
|---|--:|--:|--:|--:|--:|---|
"""


def line(r: Report) -> str:
    """Return the row of the table."""
    worst = max(value for kind, value in r.errors.items() if kind != "words")
    words = (
        "" if r.generated < 0 else "as the CPU" if not r.errors["words"] else f"{r.errors['words']:.0f} words differ"
    )
    return (
        f"| {r.name} | {r.parameters:,} | {r.first} + {r.steady} | {r.syncs:g} | {len(r.fallbacks)} | {worst:.1e} "
        f"| {words} |\n"
    )


def separately(name: str) -> str:
    """Run a model in a process of its own; return its row of the table, or what is wrong."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.zoo", "--row", name]
    env = {"XLA_TIER": "compile"} | os.environ
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    rows = [text for text in done.stdout.splitlines() if text.startswith("| ")]
    return rows[-1] + "\n" if rows and not done.returncode else f"{name}: {done.stdout[-500:]}{done.stderr[-1500:]}"


def main() -> None:
    """Run what the command line names."""
    p = argparse.ArgumentParser(prog="python -m tests.zoo", description=__doc__)
    p.add_argument("names", nargs="*", default=[r.name for r in ROWS])
    p.add_argument("--write", action="store_true", help="write docs/models.md")
    p.add_argument("--row", help="run one model in this process and print its row")
    a = p.parse_args()
    if a.row:
        report = run(next(r for r in ROWS if r.name == a.row))
        print(line(report), *report.problems, sep="\n" if report.problems else "", end="")
        sys.exit(bool(report.problems))
    lines = []
    for name in a.names:
        lines.append(separately(name))
        print(lines[-1], end="", flush=True)
    bad = [text for text in lines if not text.startswith("| ")]
    if a.write and not bad:
        versions = ", ".join(f"{m} {importlib.metadata.version(m)}" for m in ("torch", "torchvision", "transformers"))
        date = datetime.date.today().isoformat()
        PAGE.write_text(_HEAD.format(date=date, versions=versions, compared=COMPARED, steady=STEADY) + "".join(lines))
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
