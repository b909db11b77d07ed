"""The rows of tests/accelerators/compile.py, by platform and group; each group is a process of its own."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PACKAGES = os.environ.get("TGX_VENDOR_PACKAGES")
PLATFORMS = ("cuda", "tpu")
GROUPS = ("one", "spmd", "goldens")

# Goldens that a platform's compiler refuses, and why.
REFUSED: dict[str, dict[str, str]] = {
    "cuda": {},
    "tpu": {"stablehlo/scatter: select_and_scatter": "libtpu has no windows in one of the two minor-most dimensions"},
}


@functools.cache
def rows(platform: str, group: str) -> list[dict[str, Any]]:
    """Compile a group for a platform; RuntimeError if the process fails."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.accelerators.compile", platform, group],
        cwd=ROOT,
        env={**os.environ, "PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": "8" if group == "spmd" else "1"},
        capture_output=True,
        text=True,
        timeout=1800,
    )
    if done.returncode:
        raise RuntimeError(f"{platform}, {group}: exit {done.returncode}\n{done.stderr[-4000:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
