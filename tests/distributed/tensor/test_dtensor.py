"""torch's DTensor on a mesh of eight virtual CPU devices.

The number of devices is fixed when a process opens them, so the cases run in a process of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CASES = Path(__file__).parent


def run_on_eight_devices(*cases: str, **variables: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *cases]
    env = {**os.environ, "CPU_NUM_DEVICES": "8", **variables}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout[-20000:] + done.stderr[-5000:]


@pytest.mark.slow
@pytest.mark.parametrize("file", sorted(path.name for path in CASES.glob("dtensor_*.py")))
def test_on_eight_devices(file: str) -> None:
    run_on_eight_devices(str(CASES / file))


@pytest.mark.slow
def test_shardy_divides_programs_alike(tmp_path: Path) -> None:
    programs = tmp_path / "programs.txt"
    run_on_eight_devices(
        *[str(CASES / file) for file in ("dtensor_models.py", "dtensor_placement.py")],
        *["-k", "test_one_all_reduce or test_tutorial_trains or test_uneven"],
        CONVERT_SHLO_TO_SHARDY="1",
        XLA_SAVE_TENSORS_FILE=str(programs),
        XLA_SAVE_TENSORS_FMT="hlo",
    )
    assert "sdy.sharding_constraint" in programs.read_text()
