"""The runner of torch's tests tells what passes, fails, crashes and hangs, and goes on behind it."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parents[1] / "programs" / "upstream"
FILE = PROGRAMS / "tiny.py"


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


@pytest.mark.slow
def test_what_does_not_end_in_time_is_not_counted(tmp_path: Path) -> None:
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "test_tiny.py").write_text(FILE.read_text())
    record = tmp_path / "record.json"
    program = Path(__file__).with_name("torch_tests.py")
    command = [sys.executable, str(program), str(tmp_path), "--files", "test_tiny", "--match", "d_hangs"]
    subprocess.run([*command, "--seconds", "10", "--record", str(record)], timeout=600, check=True)
    assert json.loads(record.read_text())["test_tiny"]["outcomes"] == {}


def _runs(process: int) -> bool:
    try:
        return (Path("/proc") / str(process) / "stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


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
        assert _runs(process)
        parent.kill()
    while _runs(process) and time.monotonic() < end:
        time.sleep(0.1)
    assert not _runs(process)
