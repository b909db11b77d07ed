"""Runs the attacks one after the other, each in a process of its own: ``python -m tests.torture --help``.

An attack that ends by a signal, or has not ended 5 minutes after its time, counts as lost.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import datetime
import json
import os
import pkgutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from . import UNBOUNDED, Counts

FOLDER = Path(__file__).parent
GRACE = 300.0  # seconds that an attack may take longer than asked
# How many times the time of others an attack has: those whose tries are processes, which have to start. They come
# last, in this order: a round of a job takes long, and exits take what is left.
SHARES = {"saves": 2.0, "jobs": 3.0, "exits": 5.0}


def attacks() -> list[str]:
    """Return the names of the attacks."""
    names = [m.name for m in pkgutil.iter_modules([str(FOLDER)])]
    return sorted(n for n in names if not n.startswith(("_", "test_")))


def summary(name: str) -> str:
    """Return the first line of an attack's docstring."""
    text = ast.get_docstring(ast.parse((FOLDER / f"{name}.py").read_text())) or ""
    return text.partition("\n")[0]


def attack(name: str, seed: int, minutes: float, tries: int = UNBOUNDED) -> dict[str, Any]:
    """Run an attack; returns its counts, the harm that it reports and how it ended."""
    command = [sys.executable, "-W", "ignore", "-m", f"tests.torture.{name}", "--seed", str(seed)]
    command += ["--minutes", str(minutes), "--tries", str(tries)]
    began = time.monotonic()
    p = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=FOLDER.parents[1], start_new_session=True)
    try:
        out, _ = p.communicate(timeout=60 * minutes + GRACE)
        end = f"exit status {p.returncode}"
    except subprocess.TimeoutExpired:
        end = "did not end"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(p.pid, signal.SIGKILL)  # and what it has started
    if end == "did not end":
        out, _ = p.communicate()
    counts = Counts.of(out)
    found = counts or Counts()
    return {
        **{"attack": name, "seed": seed, "tries": found.tries, "faults": found.faults, "survived": found.survived},
        **{"kinds": found.kinds, "slowest": found.slowest, "lost": found.lost, "end": end},
        "failed": counts is None or end != "exit status 0" or not found.faults or found.survived != found.faults,
        **{"seconds": round(time.monotonic() - began), "date": datetime.date.today().isoformat()},
    }


def table(results: list[dict[str, Any]]) -> str:
    """Return the counts of the attacks, a line each, in Markdown."""
    lines = [
        "| attack | seed | tries | faults | survived | slowest, s | minutes | date |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in results:
        figures = f"{r['tries']:,} | {r['faults']:,} | {r['survived']:,} | {max(r['slowest'].values(), default='')}"
        lines.append(f"| {r['attack']} | {r['seed']} | {figures} | {r['seconds'] / 60:.1f} | {r['date']} |")
    return "\n".join(lines)


def main() -> None:
    """Run what the command line names."""
    p = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    p.add_argument("attacks", nargs="*", help=f"of {', '.join(attacks())}; all of them by default")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--minutes", type=float, default=30, help="for all of them together")
    p.add_argument("--tries", type=int, default=UNBOUNDED, help="of each attack, about")
    p.add_argument("--record", type=Path, help="append the results to this file, as JSON lines")
    a = p.parse_args()
    last = list(SHARES)
    names = a.attacks or sorted(attacks(), key=lambda n: (n in last and last.index(n) + 1, n))
    if unknown := set(names) - set(attacks()):
        p.error(f"unknown attacks: {', '.join(sorted(unknown))}")
    results: list[dict[str, Any]] = []
    end = time.monotonic() + 60 * a.minutes
    for i, name in enumerate(names):
        left = sum(SHARES.get(n, 1.0) for n in names[i:])
        minutes = max(0.0, end - time.monotonic()) / 60 * SHARES.get(name, 1.0) / left
        r = attack(name, a.seed, minutes, a.tries)
        print(f"{name}: {summary(name)}", *(f"  {k}: {n}" for k, n in r["kinds"].items()), sep="\n", flush=True)
        print(f"  {r['faults']} faults, {r['survived']} survived, {r['end']}, {r['seconds']} s", flush=True)
        results.append(r)
        if a.record:
            with a.record.open("a") as file:
                print(json.dumps(r), file=file)
    failed = [r["attack"] for r in results if r["failed"]]
    print(table(results), json.dumps({"seed": a.seed, "failed": failed, "attacks": results}), sep="\n\n")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
