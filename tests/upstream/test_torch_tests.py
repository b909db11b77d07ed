"""The runner of torch's tests tells what passes, fails, crashes and hangs, and goes on behind it."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.torture._children import has_ended

PROGRAMS = Path(__file__).parents[1] / "programs" / "upstream"
FILE = PROGRAMS / "tiny.py"


def _run(folder: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """Run the file as torch's tests; returns the exit code, and what was recorded."""
    (folder / "test").mkdir()
    (folder / "test" / "test_tiny.py").write_text(FILE.read_text())
    record = folder / "record.json"
    command = [sys.executable, str(Path(__file__).with_name("torch_tests.py")), str(folder), "--files", "test_tiny"]
    done = subprocess.run([*command, *options, "--record", str(record)], timeout=600, check=False)
    return done.returncode, json.loads(record.read_text())["test_tiny"]


@pytest.mark.slow
def test_outcomes(tmp_path: Path) -> None:
    code, report = _run(tmp_path, "--limit", "60")
    assert code == 1
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


@pytest.mark.slow
def test_what_does_not_end_in_time_is_not_counted(tmp_path: Path) -> None:
    assert _run(tmp_path, "--match", "d_hangs", "--seconds", "10")[1]["outcomes"] == {}


@pytest.mark.slow
def test_a_worker_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    journal.touch()
    worker = Path(__file__).with_name("torch_worker.py")
    command = [sys.executable, str(PROGRAMS / "starts_a_worker.py"), str(worker), str(FILE), str(journal)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        process = int(parent.stdout.readline())
        end = time.monotonic() + 300
        while "d_hangs" not in journal.read_text() and time.monotonic() < end:
            time.sleep(0.1)
        assert not has_ended(process)
        parent.kill()
    while not has_ended(process) and time.monotonic() < end:
        time.sleep(0.1)
    assert has_ended(process)
