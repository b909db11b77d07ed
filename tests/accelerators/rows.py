"""The rows of tests/accelerators/compile.py, by platform and group; each group is a process of its own.

`TGX_ACCELERATOR_ROWS` names a folder where they are kept, so that the tests and the page compile once.
"""

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
KEPT = os.environ.get("TGX_ACCELERATOR_ROWS")
PLATFORMS = ("cuda", "tpu")
GROUPS = ("one", "spmd", "goldens")

# Goldens that a platform's compiler refuses, and why.
REFUSED: dict[str, dict[str, str]] = {
    "cuda": {},
    "tpu": {"stablehlo/scatter: select_and_scatter": "libtpu has no windows in one of the two minor-most dimensions"},
}


@functools.cache
def rows(platform: str, group: str) -> list[dict[str, Any]]:
    """Compile a group for a platform, unless its rows are kept; RuntimeError if the process fails."""
    kept = Path(KEPT) / f"{platform}.{group}" if KEPT else None
    if kept is not None and kept.exists():
        return [json.loads(line) for line in kept.read_text().splitlines()]
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
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text("\n".join(lines) + "\n")
    return [json.loads(line) for line in lines]
