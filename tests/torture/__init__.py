"""Attacks with seeded faults: ``python -m tests.torture --help``, or ``make torture``.

An attack is a module of this package, named without ``_`` or ``test_`` in front, with one function::

    def run(seed: int, seconds: float, most: int) -> Counts: ...

It injects faults until the time is over, or until it has made so many tries. The module ends with
``if __name__ == "__main__": main(run)``. The same seed gives the same faults in the same order. The first line of its
docstring is its entry in docs/reliability.md.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[2]
UNBOUNDED = 1 << 40  # tries: then only the time ends an attack


@dataclass
class Counts:
    """What an attack tried, and what came of it."""

    tries: int = 0  # programs, calls or files that were attacked
    faults: int = 0  # injected into them
    survived: int = 0  # faults after which everything was as promised
    kinds: dict[str, int] = field(default_factory=dict)  # faults by their kind
    slowest: dict[str, float] = field(default_factory=dict)  # seconds until a fault was honoured, the most of each kind
    lost: list[str] = field(default_factory=list)  # each fault that did harm, with what is needed to repeat it

    def judge(self, harm: str, kind: str = "", seconds: float | None = None) -> None:
        """Count a fault: survived if ``harm`` is empty, else lost."""
        self.faults += 1
        if kind:
            self.kinds[kind] = self.kinds.get(kind, 0) + 1
        if seconds is not None:
            self.slowest[kind] = round(max(seconds, self.slowest.get(kind, 0)), 3)
        if harm:
            self.lost.append(harm)
        else:
            self.survived += 1

    def add(self, other: Counts) -> None:
        """Count what another one has counted."""
        self.tries, self.faults = self.tries + other.tries, self.faults + other.faults
        self.survived += other.survived
        self.lost += other.lost
        for kind, n in other.kinds.items():
            self.kinds[kind] = self.kinds.get(kind, 0) + n
        for kind, seconds in other.slowest.items():
            self.slowest[kind] = max(seconds, self.slowest.get(kind, 0))

    def line(self) -> str:
        """Return the line that an attack ends with."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> Counts | None:
        """Read what an attack has printed; None if it has not come to its end."""
        lines = [line for line in text.splitlines() if line.startswith('{"tries": ')]
        return cls(**json.loads(lines[-1])) if lines else None


def main(run: Callable[[int, float, int], Counts]) -> NoReturn:
    """Run an attack as the command line says; the exit status is 1 if a fault did harm."""
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--minutes", type=float, default=5)
    p.add_argument("--tries", type=int, default=UNBOUNDED, help="end after so many, about")
    a = p.parse_args()
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as in the background of a shell; children inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    counts = run(a.seed, 60 * a.minutes, a.tries)
    for harm in counts.lost:
        print(f"lost: {harm}", file=sys.stderr)
    print(counts.line(), flush=True)
    sys.stderr.flush()
    os._exit(bool(counts.lost) or counts.survived != counts.faults)
