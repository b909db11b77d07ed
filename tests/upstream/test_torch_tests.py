"""The runner of torch's tests tells what passes, fails, crashes and hangs, and goes on behind it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

FILE = """
import os, time
import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests, onlyNativeDeviceTypes, skipXLA
from torch.testing._internal.common_utils import TestCase

class TestTiny(TestCase):
    def test_a_passes(self, device):
        self.assertEqual(torch.ones(2, device=device).sum().item(), 2)

    def test_b_crashes(self, device):
        if torch.device(device).type == "xla":
            os.abort()

    def test_c_fails(self, device):
        self.assertEqual(torch.device(device).type, "cpu")

    def test_d_hangs(self, device):
        if torch.device(device).type == "xla":
            time.sleep(1000)

    def test_e_fails_on_the_cpu_too(self, device):
        self.assertEqual(1, 2)

    @onlyNativeDeviceTypes
    @skipXLA
    def test_f_of_torchs_own_devices(self, device):
        self.assertEqual(str(torch.ones(2, device=device).device), device)

    def test_g_skips(self, device):
        self.skipTest("it says so")

class TestOfAccelerators(TestCase):
    def test_h_is_run_too(self, device):
        self.assertEqual(torch.device(device).type, "xla")

instantiate_device_type_tests(TestTiny, globals(), except_for="meta")
instantiate_device_type_tests(TestOfAccelerators, globals(), only_for=("cuda", "xpu"))
"""


@pytest.mark.slow
def test_outcomes(tmp_path: Path) -> None:
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "test_tiny.py").write_text(FILE)
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
