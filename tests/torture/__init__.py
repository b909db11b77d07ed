"""Attacks with seeded faults: ``python -m tests.torture --help``, or ``make torture``.

An attack is a module of this package, named without ``_`` or ``test_`` in front, with one function::

    def run(seed: int, seconds: float) -> Counts: ...

It injects faults until the time is over. The module ends with ``if __name__ == "__main__": main(run)``. The same seed
gives the same faults in the same order. The first line of its docstring is its entry in docs/reliability.md.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

# How the line that an attack ends with is read.
SUMMARY = re.compile(r"^tries (\d+) faults (\d+) survived (\d+)$", re.MULTILINE)


@dataclass
class Counts:
    """What an attack tried, and what came of it."""

    tries: int = 0  # programs, calls or files that were attacked
    faults: int = 0  # injected into them
    survived: int = 0  # faults after which everything was as promised
    lost: list[str] = field(default_factory=list)  # each fault that did harm, with what is needed to repeat it

    def __str__(self) -> str:
        return f"tries {self.tries} faults {self.faults} survived {self.survived}"

    def judge(self, harm: str) -> None:
        """Count a fault: survived if ``harm`` is empty, else lost."""
        self.faults += 1
        if harm:
            self.lost.append(harm)
        else:
            self.survived += 1


def main(run: Callable[[int, float], Counts]) -> NoReturn:
    """Run an attack as the command line says; the exit status is 1 if a fault did harm."""
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--minutes", type=float, default=5)
    a = p.parse_args()
    counts = run(a.seed, 60 * a.minutes)
    for harm in counts.lost:
        print(f"lost: {harm}", file=sys.stderr)
    print(counts)
    sys.exit(bool(counts.lost) or counts.survived != counts.faults)
