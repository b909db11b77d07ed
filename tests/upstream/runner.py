"""Runs files of torch_xla's own tests on this package, under the name torch_xla."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Suite:
    """Test files of a folder of torch_xla's ``test``.

    ``files`` has what passes with torch_xla 2.9 itself, ``differences`` why a test fails here, ``chosen`` the pytest
    expression of the tests of a file of which only some are run. ``scripts`` are programs that start processes: each
    counts as one test, which passes if it ends well. What fails for the reason ``single`` must pass on one device.
    """

    folder: str
    files: dict[str, int | str | None]
    differences: dict[str, str]
    devices: int = 1
    chosen: dict[str, str] = field(default_factory=dict)
    scripts: bool = False
    single: str = ""

    def run(self, checkout: Path, name: str, devices: int, chosen: str = "") -> tuple[dict[str, int], list[str]]:
        """Return the counts by outcome, and the tests that failed; ``chosen`` is a pytest expression."""
        folder = checkout / "test" / self.folder
        here = Path(__file__).parent
        path = [str(here), str(checkout / "test"), os.environ.get("PYTHONPATH", "")]
        if self.scripts:
            path.insert(0, str(here / "site"))
        env = {
            **os.environ,
            "PJRT_DEVICE": os.environ.get("PJRT_DEVICE", "CPU"),
            "CPU_NUM_DEVICES": str(devices),
            "PYTHONPATH": os.pathsep.join(path),
        }
        if self.scripts:
            command = [sys.executable, str(folder / f"{name}.py")]
        else:
            command = [sys.executable, "-m", "pytest", "-q", "-rfE", "--tb=line", "-p", "as_torch_xla"]
            command += ["-p", "no:cacheprovider", "--rootdir", str(folder), "-c", os.devnull]
            command += [str(folder / f"{name}.py")]
        if chosen:
            command += ["-k", chosen]
        done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=1200, check=False)
        if os.environ.get("UPSTREAM_VERBOSE"):
            print(done.stdout, done.stderr)
        if self.scripts:
            return ({"passed": 1}, []) if done.returncode == 0 else ({"failed": 1}, [name])
        last = done.stdout.strip().rpartition("\n")[2]
        counts = {kind: int(n) for n, kind in re.findall(r"(\d+) (passed|failed|skipped|error)", last)}
        if not counts:
            return {"failed": 1}, [f"{name} (ends with status {done.returncode}: {(done.stderr or last)[-300:]})"]
        return counts, re.findall(r"^(?:FAILED|ERROR) \S+::(\w+)", done.stdout, re.MULTILINE)

    def check(self, checkout: Path, names: list[str]) -> int:
        """Print the counts of the files; return the exit status."""
        unexplained = 0
        print(f"{'file':42}{'passed':>8}{'failed':>8}{'skipped':>9}{'torch_xla 2.9':>15}")
        for name in names or self.files:
            counts, failed = self.run(checkout, name, self.devices, self.chosen.get(name, ""))
            theirs = self.files.get(name)
            print(
                f"{name:42}{counts.get('passed', 0):8}{counts.get('failed', 0) + counts.get('error', 0):8}"
                f"{counts.get('skipped', 0):9}{'-' if theirs is None else theirs:>15}",
                flush=True,
            )
            of_one = [test for test in failed if self.differences.get(test) == self.single]
            failed_there = self.run(checkout, name, 1, " or ".join(of_one))[1] if of_one else []
            for test in failed:
                reason = None if test in failed_there else self.differences.get(test)
                print(f"    {test}: {reason or 'NOT EXPLAINED'}", flush=True)
                unexplained += reason is None
        return 1 if unexplained else 0

    def main(self) -> int:
        """Do what the command line says: a checkout, and the files if not all."""
        if len(sys.argv) < 2 or not (Path(sys.argv[1]) / "test" / self.folder).is_dir():
            print(
                f"usage: {sys.argv[0]} CHECKOUT [FILE...], where CHECKOUT is a working copy of torch_xla's repository"
            )
            return 2
        return self.check(Path(sys.argv[1]), sys.argv[2:])
