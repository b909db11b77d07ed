"""A process that saves is killed at random moments: the old or the new checkpoint is there, whole.

``SAVE_KILLS`` is the number of moments; ``make crash`` takes 200.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import processes
import pytest
import torch

KILLS = int(os.environ.get("SAVE_KILLS", "6"))
WARM = 3

# Torch is imported once: each line of stdin is a path, for which a child saves one version after the other. The
# child prints its process id when WARM versions have been on the disk.


@pytest.fixture
def saver() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, processes.PROGRAMS / "save_crash/saver.py", str(WARM)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    yield process
    assert process.stdin is not None
    process.stdin.close()
    process.wait(60)


@pytest.mark.slow
def test_killed_at_random_moments(saver: subprocess.Popen[str], tmp_path: Path) -> None:
    assert saver.stdin is not None and saver.stdout is not None
    path, versions = tmp_path / "a.pt", set()
    chance = random.Random(0)
    for moment in range(KILLS):
        path.unlink(missing_ok=True)
        print(path, file=saver.stdin, flush=True)
        child = int(saver.stdout.readline())
        time.sleep(chance.uniform(0, 0.3))
        os.kill(child, signal.SIGKILL)
        assert saver.stdout.readline() == "gone\n"
        left = [p.name for p in tmp_path.iterdir() if p != path]
        assert len(left) <= 1, f"kill {moment}: the saves before this one left {left}"
        state = torch.load(path, weights_only=True)
        versions.add(state["version"])
        for name, value in state["weights"].items():
            assert (value == state["version"]).all(), f"kill {moment}: {name} is not of version {state['version']}"
    assert max(versions) > WARM, "every moment was before the next version"
