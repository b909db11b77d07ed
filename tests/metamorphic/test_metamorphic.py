"""Random programs, and those that once failed; see `check`.

``METAMORPHIC_COUNT`` is the number of random ones; `make metamorphic` takes 20,000.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import check
import pytest

COUNT = int(os.environ.get("METAMORPHIC_COUNT", "500"))
PROCESSES = 2
FEW = 20


@pytest.mark.longer
def test_some_programs(request: pytest.FixtureRequest) -> None:
    """Other ones each day."""
    check_programs(request.config.option.draw * FEW, FEW, 1)


@pytest.mark.slow
def test_random_programs() -> None:
    check_programs(0, COUNT, PROCESSES)


def check_programs(first: int, count: int, processes: int) -> None:
    """Each process checks its share; what one prints is the reduced program that fails."""
    share = count // processes
    command = [sys.executable, check.__file__, "--count", str(share), "--first"]
    running = [
        subprocess.Popen(
            [*command, str(first + i * share)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for i in range(processes)
    ]
    for process in running:
        printed, _ = process.communicate()
        assert process.returncode == 0, printed


@pytest.mark.longer
@pytest.mark.parametrize("path", sorted(check.REGRESSIONS.glob("*.txt")), ids=lambda p: p.stem)
def test_programs_that_failed_once(path: Path) -> None:
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    for configuration in check.CONFIGURATIONS:
        assert check.fails(lines, configuration) is None
