"""The conformance harness of another project: python -m pypjrt.conform."""

import json
import os
import subprocess

import pytest
from interpreters import pythons_with

PYTHONS = pythons_with("pypjrt")


def test_conformance(plugin, clean_environment, tmp_path):
    if not PYTHONS:
        pytest.skip("pypjrt is not importable: set XLACPU_JAX_PYTHON")
    report = tmp_path / "report.json"
    done = subprocess.run(
        [PYTHONS[0], "-m", "pypjrt.conform", os.fspath(plugin), "--json", os.fspath(report)],
        capture_output=True,
        text=True,
        env=clean_environment,
        timeout=600,
    )
    assert report.exists(), done.stdout[-2000:] + done.stderr[-2000:]
    results = json.loads(report.read_text())
    print(json.dumps(results)[:4000])
    assert done.returncode == 0, done.stdout[-4000:]
