"""How wheels are built; `make wheels` and `make try-wheels` build and try real ones."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from build_support import interpreters, plugin, wheels
from build_support.toolchain import toolchain


def test_every_python_builds_with_the_go_of_this_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Go may be a package of this environment, which those of the other Pythons do not see."""
    paths = []

    def run(*command: str | Path, **env: str) -> str:
        if "wheel" in command and wheels.ROOT in command:
            paths.append(env["PATH"])
        return ""

    monkeypatch.setattr(wheels, "_run", run)
    monkeypatch.setattr(wheels, "DIST", tmp_path / "dist")
    monkeypatch.setattr(plugin, "build", lambda tools: None)
    monkeypatch.setattr(interpreters, "pythons", lambda versions: {"3.11": sys.executable, "3.12": sys.executable})
    assert wheels.build() == []
    assert len(paths) >= 2
    assert {p.partition(":")[0] for p in paths} == {str(toolchain().go.parent)}
