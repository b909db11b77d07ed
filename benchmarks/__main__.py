"""``python -m benchmarks [--quick] [--only CASE ...] [--subjects NAME ...]``"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from . import report, subjects
from .cases import SPECS, Spec

_ROOT = Path(__file__).resolve().parents[1]
_RESULTS = Path(__file__).parent / "results"
_THREADS = 2


def _environment() -> dict[str, str]:
    threads = {"OMP_NUM_THREADS": str(_THREADS), "MKL_NUM_THREADS": str(_THREADS), "TF_CPP_MIN_LOG_LEVEL": "3"}
    return {"PJRT_DEVICE": "CPU", **os.environ, **threads}


class Client:
    """A subject in its own process. RuntimeError is what the subject could not do."""

    def __init__(self, name: str, python: str) -> None:
        self.name, self.python = name, python
        self._process = subprocess.Popen(
            [python, "-m", "benchmarks.worker", name],
            cwd=_ROOT, env=_environment(), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def ask(self, **request: Any) -> Any:
        """Send a request and return the answer."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise RuntimeError(f"the process of {self.name} ended with {self._process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["ok"]

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@contextmanager
def _client(name: str, python: str) -> Iterator[Client]:
    client = Client(name, python)
    try:
        yield client
    finally:
        client.close()


def _import(name: str, python: str) -> float:
    """Return the time that a new process takes to import a subject's package."""
    start = time.perf_counter()
    subprocess.run([python, "-c", subjects.load(name).IMPORT], cwd=_ROOT, env=_environment(), check=True)
    return time.perf_counter() - start


def _fresh(case: str, spec: Spec, pythons: dict[str, str], quick: bool) -> dict[str, list[float]]:
    """Measure a case with a new process for each sample."""
    times: dict[str, list[float]] = {name: [] for name in pythons}
    for _ in range(spec.quick_samples if quick else spec.samples):
        for name, python in pythons.items():
            try:
                if case == "import":
                    times[name].append(_import(name, python))
                    continue
                with _client(name, python) as client:
                    client.ask(open=case, quick=quick)
                    times[name].append(client.ask(sample=True))
            except (RuntimeError, subprocess.CalledProcessError) as e:
                print(f"{case}: {name}: {e}", file=sys.stderr)
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


def main() -> None:
    """Measure, print and write."""
    pythons = subjects.pythons()
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure the device xla beside torch's CPU."
    )
    parser.add_argument(
        "--quick", action="store_true", help="smaller cases and fewer samples: minutes, with more noise"
    )
    parser.add_argument("--only", nargs="+", metavar="CASE", choices=SPECS, help=f"some of {', '.join(SPECS)}")
    parser.add_argument("--subjects", nargs="+", metavar="NAME", choices=pythons, help=f"some of {', '.join(pythons)}")
    parser.add_argument("--results", type=Path, default=_RESULTS, help="the folder for results.{json,md,svg}")
    options = parser.parse_args()
    if options.quick and not options.subjects:
        options.subjects = [subjects.REFERENCE, "torch_go_xla"]
    pythons = {name: python for name, python in pythons.items() if not options.subjects or name in options.subjects}
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:_THREADS])  # the subjects inherit it

    names = list(pythons)
    times: report.Times = {}
    print(report.head(names), flush=True)
    with ExitStack() as stack:
        clients: list[Client] = []
        for case in options.only or SPECS:
            spec = SPECS[case]
            if spec.fresh:
                times[case] = _fresh(case, spec, pythons, options.quick)
            else:
                clients = clients or [stack.enter_context(_client(n, p)) for n, p in pythons.items()]
                times[case] = _interleaved(case, spec, clients, options.quick)
            print(report.row(case, report.figures(times)[case], names), flush=True)
            report.write(options.results, times, names, options.quick, os.getloadavg()[0])
    print(f"written to {options.results}")


if __name__ == "__main__":
    main()
