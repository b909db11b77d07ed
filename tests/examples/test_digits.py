"""The main job, as `make demo` runs it: it checks accuracy, losses, the saved file, compilations and memory itself."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits.py"


@pytest.mark.compiled
@pytest.mark.slow
def test_the_main_job_holds_and_says_so() -> None:
    done = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    for model in ("MLP", "ConvNet"):
        found = re.search(
            rf"^{model}: test accuracy ([\d.]+)%; .* at most (\S+) from torch CPU's; .*"
            r"; (\d+) compilations, 0 CPU fallbacks; saved, reloaded, bits equal$",
            done.stdout,
            re.MULTILINE,
        )
        assert found, done.stdout
        accuracy, difference, compilations = found.groups()
        assert float(accuracy) >= 97 and float(difference) <= 1e-4 and 1 <= int(compilations) <= 3
        assert f"{model} on xla:0: 100%" in done.stderr, "no progress bar"
    assert "0 bytes left on the device" in done.stdout
    assert "Counter: UncachedCompile" in done.stdout
