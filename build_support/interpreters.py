"""The Pythons of this machine that packages are built and tested with."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

# The Pythons that wheels are made for.
SUPPORTED = ("3.11", "3.12", "3.13", "3.14")

# The Pythons that the newest JAX is published for, the newest first.
NEWEST = ("3.13", "3.12")


def _candidates(version: str) -> Iterator[str]:
    """Yield the commands that may be this version's: this one, those on the PATH, then pyenv's."""
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        yield sys.executable
    on_path = shutil.which(f"python{version}")
    if on_path:
        yield on_path
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(str(p) for p in pyenv.glob(f"versions/{version}.*/bin/python{version}"))


def _runs(command: str, version: str) -> bool:
    """Tell whether the command is a Python of this version that can make environments; pyenv's shims may not be."""
    code = "import ensurepip, sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([command, "-c", code], capture_output=True, text=True, check=False)
    return done.returncode == 0 and done.stdout.strip() == version


def pythons(versions: Sequence[str]) -> dict[str, str]:
    """Return, by version, the command of each of these Pythons that the machine has."""
    found = {}
    for version in versions:
        command = next((c for c in _candidates(version) if _runs(c, version)), None)
        if command:
            found[version] = command
    return found


def client_pythons() -> dict[str, str]:
    """Return, by version, the command of this Python and that of the newest in NEWEST that the machine has."""
    major, minor = sys.version_info[:2]
    found = {f"{major}.{minor}": sys.executable}
    for version, command in pythons(NEWEST).items():
        found.setdefault(version, command)
        break
    return found
