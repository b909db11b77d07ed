"""torch's DTensor on a mesh of eight virtual CPU devices.

The number of devices is fixed when a process opens them, so the cases run in a process of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CASES = Path(__file__).parent / "spmd"


@pytest.mark.slow
@pytest.mark.parametrize("file", sorted(path.name for path in CASES.glob("dtensor_*.py")))
def test_on_eight_devices(file: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(CASES / file)]
    env = {**os.environ, "CPU_NUM_DEVICES": "8"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout[-20000:] + done.stderr[-5000:]
