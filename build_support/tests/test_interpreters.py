"""Which Pythons others' clients are tested with."""

import sys
from pathlib import Path

import pytest

from build_support import interpreters


def command(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_a_shim_without_its_python_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newest, older = interpreters.NEWEST[:2]
    command(tmp_path / "shims" / f"python{newest}", "exit 127")
    monkeypatch.setenv("PATH", str(tmp_path / "shims"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    this = "{}.{}".format(*sys.version_info)
    assert interpreters.client_pythons() == {this: sys.executable}
    second = command(tmp_path / "versions" / f"{older}.1" / "bin" / f"python{older}", f"echo {older}")
    assert interpreters.client_pythons() == {older: str(second), this: sys.executable}
    first = command(tmp_path / "versions" / f"{newest}.0" / "bin" / f"python{newest}", f"echo {newest}")
    assert interpreters.client_pythons() == {newest: str(first), this: sys.executable}
