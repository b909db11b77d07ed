"""The report on an installation: what it says, and what it says when something is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import torch_go_xla
from torch_go_xla import doctor


def test_info_names_versions_plugins_devices_and_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_GO_XLA_SAMPLE", "1")
    monkeypatch.delenv("PJRT_LIBRARY_PATH", raising=False)
    found = json.loads(json.dumps(torch_go_xla.info()))
    assert found["versions"]["core"].startswith(f"{torch_go_xla.__version__}, go1.")
    assert found["plugins"]["CPU"].endswith("libpjrt_xla_cpu.so")
    assert len(found["devices"]) == torch_go_xla.device_count()
    assert found["devices"][0].startswith(f"xla:0 is {torch_go_xla.real_devices()[0]}")
    assert found["environment"]["TORCH_GO_XLA_SAMPLE"] == "1" and "PATH" not in found["environment"]


def test_the_cache_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "program").write_bytes(bytes(3 << 20))
    monkeypatch.setenv("XLA_PERSISTENT_CACHE_PATH", str(tmp_path))
    assert torch_go_xla.info()["cache"]["folder"] == f"{tmp_path}: 1 files, 3.0 MiB"


def test_a_plugin_whose_package_fails_is_reported_and_the_others_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(torch_go_xla.plugins.DevicePlugin):
        def library_path(self) -> str:
            raise OSError("no such disk")

    monkeypatch.delenv("PJRT_LIBRARY_PATH", raising=False)
    monkeypatch.setitem(torch_go_xla.plugins._plugins, "BROKEN", Broken())
    found = torch_go_xla.info()["plugins"]
    assert found["BROKEN"] == "not found: no such disk" and found["CPU"].startswith("/")


def test_the_checks_pass_here(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "all checks passed"
    assert sum(line.startswith("  ok ") for line in lines) == len(doctor.CHECKS) >= 4


def test_a_check_that_fails_is_counted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(torch_go_xla.doctor.torch, "load", lambda *_, **__: {"w": doctor.torch.zeros(3, 4)})
    assert doctor.main() == 1
    out = capsys.readouterr().out
    assert "FAILED  save and load: RuntimeError: what was loaded differs" in out
    assert out.endswith(f"1 of {len(doctor.CHECKS)} checks failed\n")


@pytest.mark.longer
def test_a_library_that_is_not_there_is_named_and_the_status_says_so() -> None:
    env = {**os.environ, "PJRT_LIBRARY_PATH": "/nowhere/libpjrt.so"}
    command = [sys.executable, "-m", "torch_go_xla.doctor"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 1, done.stderr
    assert "PJRT_LIBRARY_PATH   /nowhere/libpjrt.so" in done.stdout
    assert "/nowhere/libpjrt.so: no such file" in done.stdout
    assert done.stdout.count("FAILED  ") == len(doctor.CHECKS)
