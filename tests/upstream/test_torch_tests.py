"""The runner of torch's tests tells what passes, fails, crashes and hangs, and goes on behind it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).parents[1] / "programs" / "upstream" / "tiny.py"


@pytest.mark.slow
def test_outcomes(tmp_path: Path) -> None:
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "test_tiny.py").write_text(FILE.read_text())
    record = tmp_path / "record.json"
    program = Path(__file__).with_name("torch_tests.py")
    command = [sys.executable, str(program), str(tmp_path), "--files", "test_tiny", "--limit", "60"]
    done = subprocess.run([*command, "--record", str(record)], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 1, done.stderr
    report = json.loads(record.read_text())["test_tiny"]
    assert report["tests"] == 8
    outcomes = {name.partition(".test_")[2]: (o["kind"], o["cpu"]) for name, o in report["outcomes"].items()}
    assert outcomes == {
        "a_passes_xla": ("passed", ""),
        "b_crashes_xla": ("crashed", "passed"),
        "c_fails_xla": ("failed", "passed"),
        "d_hangs_xla": ("hung", "passed"),
        "e_fails_on_the_cpu_too_xla": ("failed", "failed"),
        "f_of_torchs_own_devices_xla": ("passed", ""),
        "g_skips_xla": ("skipped", ""),
        "h_is_run_too_xla": ("passed", ""),
    }
