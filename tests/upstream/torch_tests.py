"""Runs torch's own device-generic tests on the device ``xla``.

    python tests/upstream/torch_tests.py CHECKOUT [CHECKOUT...] [--files test_torch test_nn] [--sample 300] [--seed 0]

A CHECKOUT is a working copy of pytorch or of torch-xpu-ops. A file is taken from the first one that has it. Each file
is run by a process of its own, which is started again behind a test that crashes or hangs. What fails is run on torch's
CPU too: what fails there is the test's own fault, or the environment's. ``--write`` writes docs/upstream-torch.md. The
exit status is 1 if a test fails without a reason in ``torch_expectations.py``.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import torch_expectations as expectations

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

FILES = [
    "test_torch",
    "test_view_ops",
    "test_shape_ops",
    "test_type_promotion",
    "test_indexing",
    "test_binary_ufuncs",
    "test_unary_ufuncs",
    "test_reductions",
    "test_sort_and_select",
    "test_tensor_creation_ops",
    "test_scatter_gather_ops",
    "test_linalg",
    "test_spectral_ops",
    "test_nn",
    "test_ops",
    "test_autograd",
    "test_dlpack",
    "test_foreach",
    "test_optim",
    "test_nestedtensor",
]


@dataclass
class Outcome:
    """What one test did: passed, skipped, failed, crashed or hung, with what it said."""

    kind: str
    why: str = ""
    seconds: float = 0.0
    cpu: str = ""

    @property
    def bad(self) -> bool:
        """Whether the test did not pass, and was not skipped."""
        return self.kind not in {"passed", "skipped"}


@dataclass
class Report:
    """The outcomes of a file's tests, by test; ``error`` if it could not be imported."""

    file: str
    tests: int = 0
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    error: str = ""

    def reason(self, test: str) -> str | None:
        """Return why a test fails, or None if it is unknown."""
        outcome = self.outcomes[test]
        if outcome.cpu == "failed":
            return expectations.CPU
        return expectations.reason(self.file, test, outcome.why)


def find(checkouts: list[Path], name: str) -> Path | None:
    """Return the file of tests in the first checkout that has it whole."""
    for checkout in checkouts:
        plain, xpu = checkout / "test" / f"{name}.py", checkout / "test" / "xpu" / f"{name}_xpu.py"
        if plain.is_file():
            return plain
        # torch-xpu-ops has some files whole; the others import pytorch's and change them for its device.
        if xpu.is_file() and not re.search(rf"XPUPatchForImport|from {name} import", xpu.read_text()):
            return xpu
    return None


def work(
    file: Path, checkouts: list[Path], tests: list[str], limit: float, end: float = math.inf
) -> tuple[list[dict], str]:
    """Run one process on tests, or list all if there are none; return its journal, and its last words if it failed.

    The process is ended at the time ``end``, whatever it does.
    """
    path = [str(file.parent), *(str(c / "test") for c in checkouts), os.environ.get("PYTHONPATH", "")]
    env = {
        "PJRT_DEVICE": "CPU", "XLA_TIER": "compile",
        **os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONUNBUFFERED": "1",
    }  # fmt: skip
    env["PYTORCH_PRINT_REPRO_ON_FAILURE"] = "0"
    with TemporaryDirectory() as folder:
        journal, said = Path(folder) / "journal", Path(folder) / "said"
        journal.touch()
        with said.open("w") as output:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-W",
                    "ignore",
                    str(HERE / "torch_worker.py"),
                    str(file),
                    str(journal),
                    str(os.getpid()),
                ],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                cwd=folder,
                env=env,
                start_new_session=True,
            )
            assert process.stdin is not None
            process.stdin.write("\n".join(tests).encode())
            process.stdin.close()
            size, since, words = 0, time.monotonic(), ""
            while process.poll() is None:
                time.sleep(0.2)
                if (now := journal.stat().st_size) != size:
                    size, since = now, time.monotonic()
                elif time.monotonic() - since > limit:
                    words = f"no end in {limit:.0f} s"
                if words or time.monotonic() > end:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        if process.returncode and not words and time.monotonic() < end:
            words = f"ends with status {process.returncode}: {said.read_text(errors='replace')[-3000:]}"
        return [json.loads(line) for line in journal.read_text().splitlines() if line.endswith("}")], words


def run(file: Path, checkouts: list[Path], tests: list[str], limit: float, end: float = math.inf) -> dict[str, Outcome]:
    """Run tests of a file until ``end``, going on in another process behind each one that crashes or hangs."""
    outcomes: dict[str, Outcome] = {}
    left = list(tests)
    while left and time.monotonic() < end:
        entries, words = work(file, checkouts, left, limit, end)
        started = ""
        for entry in entries:
            if "start" in entry:
                started = entry["start"]
            elif "end" in entry:
                outcomes[entry["end"]] = Outcome(entry["outcome"], entry["why"], entry["seconds"])
                started = ""
        done = any("done" in entry for entry in entries)
        if not words and not done:  # the time is over
            break
        if started:
            outcomes[started] = Outcome("hung" if words.startswith("no end") else "crashed", words)
        elif not done:  # the process failed between tests
            outcomes[next(test for test in left if test not in outcomes)] = Outcome("crashed", words)
        left = [] if done else [test for test in left if test not in outcomes]
    return outcomes


def on_cpu(test: str) -> str:
    """Return the name that torch gives the test of the CPU."""
    cls, _, name = test.partition(".")
    before, _, after = name.rpartition("_xla")
    return f"{cls.removesuffix('XLA')}CPU.{before}_cpu{after}"


def report(name: str, checkouts: list[Path], options: argparse.Namespace) -> Report:
    """Run a file, or a sample of its tests, and again on the CPU what fails."""
    file = find(checkouts, name)
    if file is None:
        return Report(name, error="no checkout has it")
    entries, words = work(file, checkouts, [], options.limit)
    if words or not entries:
        return Report(name, error=words)
    tests = entries[0]["tests"]
    result = Report(name, len(tests))
    if options.again:
        result.outcomes = options.again[name].outcomes
        tests = [test for test in tests if test in result.outcomes and result.outcomes[test].bad]
    if options.match:
        tests = [test for test in tests if options.match in test]
    if options.sample and options.sample < len(tests):
        tests = random.Random(f"{options.seed}/{name}").sample(tests, options.sample)
    outcomes = run(file, checkouts, tests, options.limit, time.monotonic() + (options.seconds or math.inf))
    result.outcomes |= outcomes
    if failed := {on_cpu(test): test for test, outcome in outcomes.items() if outcome.bad}:
        for test, outcome in run(file, checkouts, list(failed), options.limit).items():
            if test in failed:
                result.outcomes[failed[test]].cpu = "failed" if outcome.bad else outcome.kind
    return result


def summary(result: Report) -> list[str | int]:
    """Return a row of the table."""
    kinds = Counter(outcome.kind for outcome in result.outcomes.values())
    failed = [test for test, outcome in result.outcomes.items() if outcome.bad]
    reasons = Counter(
        "cpu" if result.reason(t) == expectations.CPU else "known" if result.reason(t) else "open" for t in failed
    )
    run_here = sum(kinds.values()) - kinds["skipped"]
    return [
        result.file,
        result.tests,
        run_here,
        kinds["passed"],
        reasons["cpu"],
        reasons["known"],
        reasons["open"],
        kinds["crashed"],
        kinds["hung"],
        kinds["skipped"],
    ]


HEAD = ["file", "tests", "run", "passed", "fail on the CPU too", "known", "open", "crashed", "hung", "skipped"]


def page(results: list[Report], options: argparse.Namespace) -> str:
    """Return docs/upstream-torch.md."""
    rows = [summary(result) for result in results if not result.error]
    sums = [sum(int(row[i]) for row in rows) for i in range(1, len(HEAD))]
    ours = sums[1] - sums[3]
    causes: Counter[str] = Counter()
    open_ones: list[str] = []
    for result in results:
        for test, outcome in result.outcomes.items():
            if outcome.bad and (reason := result.reason(test)) != expectations.CPU:
                causes[reason or "open"] += 1
                if reason is None:
                    open_ones.append(f"`{result.file}`: `{test}`")
    drawn = f"at most {options.sample} tests of a file, drawn by the seed {options.seed}"
    lines = [
        "# torch's device-generic tests on this package",
        "",
        *expectations.INTRODUCTION.strip().splitlines(),
        "",
        f"This page is of a run with {drawn if options.sample else 'all tests'}.",
        f"Of {ours} tests that run and do not fail on the CPU, {sums[2]} pass: {100 * sums[2] / max(ours, 1):.1f} %.",
        "",
        "| " + " | ".join(HEAD) + " |",
        "|---|" + "---:|" * (len(HEAD) - 1),
        *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows),
        "| all | " + " | ".join(str(n) for n in sums) + " |",
        "",
        "## Why tests fail",
        "",
        "| reason | tests |",
        "|---|---:|",
        *(f"| {reason} | {n} |" for reason, n in causes.most_common()),
    ]
    if missing := [result for result in results if result.error]:
        lines += ["", "Not run: " + ", ".join(f"`{result.file}`" for result in missing) + "."]
    if open_ones:
        lines += ["", "## Open", "", *(f"* {test}" for test in sorted(open_ones))]
    return "\n".join(lines) + "\n"


def read(record: Path) -> dict[str, Report]:
    """Return the reports that a record has, by file, in the order of the files."""
    kept = json.loads(record.read_text()) if record.exists() else {}
    reports = [Report(**{**r, "outcomes": {t: Outcome(**o) for t, o in r["outcomes"].items()}}) for r in kept.values()]
    reports.sort(key=lambda r: (r.file not in FILES, FILES.index(r.file) if r.file in FILES else r.file))
    return {r.file: r for r in reports}


def keep(record: Path, results: list[Report]) -> list[Report]:
    """Add reports to a record; return all that it then has."""
    kept = read(record) | {r.file: r for r in results}
    text = {r.file: {**vars(r), "outcomes": {t: vars(o) for t, o in r.outcomes.items()}} for r in kept.values()}
    record.write_text(json.dumps(text, indent=1))
    return list(read(record).values())


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("checkouts", nargs="+", type=Path)
    parser.add_argument("--files", nargs="+", default=FILES)
    parser.add_argument("--match", default="", help="run only the tests whose name has this in it")
    parser.add_argument("--sample", type=int, default=0, help="at most so many tests of a file; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0, help="of a file, run what ends in so many; 0: all")
    parser.add_argument("--limit", type=float, default=300, help="seconds after which a test counts as hung")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--record", type=Path, help="keep every outcome in this file; the page is of all that it has")
    parser.add_argument("--again", action="store_true", help="of the tests in the record, run those that failed")
    parser.add_argument("--write", action="store_true", help="write docs/upstream-torch.md")
    options = parser.parse_args()
    options.again = read(options.record) if options.again else {}
    if options.again:
        options.files = [name for name in options.files if name in options.again]
    checkouts = [checkout.resolve() for checkout in options.checkouts]
    results = []
    line = "{:>26}" + "".join(f"{{:>{max(len(name) + 2, 8)}}}" for name in HEAD[1:])
    print(line.format(*HEAD))
    with ThreadPoolExecutor(options.processes) as pool:
        for result in pool.map(lambda name: report(name, checkouts, options), options.files):
            results.append(result)
            print(line.format(*summary(result)), flush=True)
            if result.error:
                print(f"    not run: {result.error}", flush=True)
            for test, outcome in result.outcomes.items():
                if outcome.bad and result.reason(test) is None:
                    last = (outcome.why.strip().splitlines() or [""])[-1]
                    print(f"    {outcome.kind} {test}: {last[:200]}", flush=True)
    if options.record:
        results = keep(options.record, results)
    if options.write:
        (ROOT / "docs" / "upstream-torch.md").write_text(page(results, options))
    unexplained = sum(o.bad and r.reason(t) is None for r in results for t, o in r.outcomes.items())
    return 1 if unexplained or any(result.error for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
