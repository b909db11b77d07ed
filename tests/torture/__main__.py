"""Runs the attacks one after the other, each in a process of its own: ``python -m tests.torture --help``.

An attack that ends by a signal, or has not ended 5 minutes after its time, counts as lost.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import json
import os
import pkgutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from . import SUMMARY

FOLDER = Path(__file__).parent
PAGE = FOLDER.parents[1] / "docs" / "reliability.md"
GRACE = 300.0  # seconds that an attack may take longer than it was told


def attacks() -> list[str]:
    """Return the names of the attacks."""
    names = [m.name for m in pkgutil.iter_modules([str(FOLDER)])]
    return sorted(n for n in names if not n.startswith(("_", "test_")))


def summary(name: str) -> str:
    """Return the first line of an attack's docstring."""
    text = ast.get_docstring(ast.parse((FOLDER / f"{name}.py").read_text())) or ""
    return text.partition("\n")[0]


def attack(name: str, seed: int, minutes: float) -> dict[str, Any]:
    """Run an attack; returns its counts, the harm that it reports and how it ended."""
    command = [sys.executable, "-m", f"tests.torture.{name}", "--seed", str(seed), "--minutes", str(minutes)]
    began = datetime.datetime.now()
    p = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=FOLDER.parents[1], start_new_session=True)
    try:
        out, _ = p.communicate(timeout=60 * minutes + GRACE)
        end = f"exit status {p.returncode}"
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)
        out, _ = p.communicate()
        end = "did not end"
    found = SUMMARY.findall(out)
    tries, faults, survived = map(int, found[-1]) if found else (0, 0, 0)
    return {
        **{"attack": name, "seed": seed, "tries": tries, "faults": faults, "survived": survived},
        **{"lost": p.returncode != 0 or not faults or survived != faults, "end": end},
        **{"seconds": (datetime.datetime.now() - began).seconds, "date": began.date().isoformat()},
    }


def page(results: list[dict[str, Any]]) -> str:
    """Return docs/reliability.md of some results."""
    lines = [
        "# Reliability",
        "",
        "`make torture` injects faults at random moments and checks what is left. It takes 30 minutes;",
        "`TORTURE_MINUTES` and `TORTURE_SEED` change that and the faults. The same seed injects the same faults.",
        "",
        "A fault is survived if the process goes on or ends as documented, values are right, and files are whole.",
        "A crash, a hang or a wrong value is a loss, and makes the command fail.",
        "",
        "| attack | what it does |",
        "|---|---|",
        *(f"| {name} | {summary(name)} |" for name in sorted({r["attack"] for r in results})),
        "",
        "| attack | seed | tries | faults | survived | minutes | date |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in sorted(results, key=lambda r: (r["attack"], r["seed"])):
        figures = f"{r['tries']} | {r['faults']} | {r['survived']} | {r['seconds'] / 60:.1f} | {r['date']}"
        lines.append(f"| {r['attack']} | {r['seed']} | {figures} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run what the command line names."""
    p = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    p.add_argument("attacks", nargs="*", help=f"of {', '.join(attacks())}; all of them by default")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--minutes", type=float, default=30, help="for all of them together")
    p.add_argument("--record", type=Path, help="append the results to this file, as JSON lines")
    p.add_argument("--write", action="store_true", help="write docs/reliability.md, of this run and of --record")
    a = p.parse_args()
    names = a.attacks or attacks()
    if unknown := set(names) - set(attacks()):
        p.error(f"unknown attacks: {', '.join(sorted(unknown))}")
    results = [json.loads(line) for line in a.record.open()] if a.record and a.record.exists() else []
    lost = False
    for name in names:
        r = attack(name, a.seed, a.minutes / len(names))
        counts = f"tries {r['tries']} faults {r['faults']} survived {r['survived']}"
        print(f"{name}: {counts}, {r['end']}, {r['seconds']} s", flush=True)
        lost |= r["lost"]
        results.append(r)
        if a.record:
            with a.record.open("a") as file:
                print(json.dumps(r), file=file)
    if a.write:
        PAGE.write_text(page(results))
    sys.exit(lost)


if __name__ == "__main__":
    main()
