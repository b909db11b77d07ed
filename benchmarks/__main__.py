"""``python -m benchmarks [--quick] [--only CASE ...] [--subjects NAME ...]``: measure this project beside its peers.

The peers are those that ``python -m benchmarks.peers`` has installed; one that is missing is named and left out.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from . import report, subjects
from .cases import SPECS, Spec
from .clients import ROOT, Client, environment, limit_cores, started

_RESULTS = Path(__file__).parent / "results"


def _import(name: str, python: str) -> float:
    """Return the time that a new process takes to import a subject's package."""
    start = time.perf_counter()
    subprocess.run([python, "-c", subjects.load(name).IMPORT], cwd=ROOT, env=environment(name), check=True)
    return time.perf_counter() - start


def _once(case: str, name: str, python: str, quick: bool, cache: str | None) -> float:
    """Return a sample from a new process."""
    if case == "import":
        return _import(name, python)
    with started(name, python, cache) as client:
        client.ask(open=case, quick=quick)
        return float(client.ask(sample=True))


def _fresh(case: str, spec: Spec, pythons: dict[str, str], quick: bool) -> dict[str, list[float]]:
    """Measure a case with a new process for each sample."""
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        caches = dict.fromkeys(pythons)
        if spec.warm:
            caches |= {name: os.path.join(folder, name) for name in pythons if hasattr(subjects.load(name), "CACHE")}
        for turn in range((spec.quick_samples if quick else spec.samples) + spec.warm):
            for name, python in pythons.items():
                try:
                    taken = _once(case, name, python, quick, caches[name])
                except (RuntimeError, subprocess.CalledProcessError) as e:
                    print(f"{case}: {name}: {e}", file=sys.stderr)
                    continue
                if turn or not spec.warm:  # the first fills the cache
                    times.setdefault(name, []).append(taken)
    return times


def _interleaved(case: str, spec: Spec, clients: list[Client], quick: bool) -> dict[str, list[float]]:
    """Measure a case by asking the subjects in turn."""
    times: dict[str, list[float]] = {}
    for client in clients:
        try:
            client.ask(open=case, quick=quick)
            client.ask(sample=True)  # warms up
            times[client.name] = []
        except RuntimeError as e:
            print(f"{case}: {client.name}: {e}", file=sys.stderr)
    opened = [c for c in clients if c.name in times]
    for _ in range(spec.quick_samples if quick else spec.samples):
        for client in opened:
            try:
                times[client.name].append(client.ask(sample=True))
            except RuntimeError as e:
                print(f"{case}: {client.name}: {e}", file=sys.stderr)
    for client in opened:
        client.ask(close=True)
    return times


def _pythons(wanted: list[str]) -> dict[str, str]:
    """Return the Python of each subject that can run; names those that cannot."""
    found = {}
    for name in wanted:
        try:
            found[name] = subjects.python(name)
        except LookupError as e:
            print(f"{name} is left out: {e}", file=sys.stderr)
    return found


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--quick",
        action="store_true",
        help="smaller cases and fewer samples, beside torch alone: minutes, with more noise",
    )
    parser.add_argument(
        "--only", nargs="+", metavar="CASE", choices=SPECS,
        help=f"some of {', '.join(SPECS)}; the results of the others stay",
    )  # fmt: skip
    known = subjects.names()
    parser.add_argument("--subjects", nargs="+", metavar="NAME", choices=known, help=f"some of {', '.join(known)}")
    parser.add_argument("--results", type=Path, default=_RESULTS, help="the folder for results.{json,md,svg}")
    options = parser.parse_args()
    options.subjects = options.subjects or ([subjects.REFERENCE, subjects.OURS] if options.quick else known)
    return options


def main() -> None:
    """Measure, print and write."""
    options = _parse()
    pythons = _pythons(options.subjects)
    limit_cores()

    names = list(pythons)
    runs = report.read(options.results, options.quick) if options.only else {}
    print(report.head(names, options.quick), flush=True)
    with ExitStack() as stack:
        clients: dict[str, Client] = {}
        for case in options.only or SPECS:
            spec, taking = SPECS[case], {n: p for n, p in pythons.items() if subjects.takes(n, case)}
            if spec.fresh:
                times = _fresh(case, spec, taking, options.quick)
            else:
                for name in taking.keys() - clients.keys():
                    clients[name] = stack.enter_context(started(name, pythons[name]))
                times = _interleaved(case, spec, [clients[name] for name in taking], options.quick)
            runs[case] = report.run(times, os.getloadavg()[0])
            print(report.row(case, report.figures({case: times})[case], names, options.quick), flush=True)
            report.write(options.results, runs, options.quick)
    print(f"written to {options.results}")


if __name__ == "__main__":
    main()
