"""Builds the native parts and puts them in place."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from . import BUILD, ROOT, plugin, surface
from .stamps import exclusive
from .toolchain import BuildError, Toolchain, toolchain

PACKAGE = Path("torch_go_xla")
SOURCE_TREE = ROOT / "python"


def version() -> str:
    """Return the version of the package, from the one file that states it."""
    m = re.search(r'^__version__ = "([^"]+)"', (SOURCE_TREE / PACKAGE / "_version.py").read_text(), re.M)
    if m is None:
        raise BuildError("torch_go_xla/_version.py does not state __version__")
    return m[1]


def products() -> list[Path]:
    """Return what `build_go` writes, relative to the directory that holds the package."""
    return [PACKAGE / "_go" / name for name in (surface.library_name(), *surface.modules())]


def _install(files: Sequence[Path], directory: Path) -> None:
    """Copy files into a directory, each in one step: a process that has the old one mapped keeps it."""
    directory.mkdir(parents=True, exist_ok=True)
    for file in files:
        fresh = directory / f".{file.name}.new"
        shutil.copy2(file, fresh)
        os.replace(fresh, directory / file.name)


def build_go(tools: Toolchain, destination: Path = SOURCE_TREE) -> None:
    """Build the Go library and copy it into the package under destination."""
    with exclusive(BUILD / "lock-go"):
        _install(surface.build(tools, version()), destination / PACKAGE / "_go")


def _link(files: Sequence[Path], directory: Path) -> None:
    """Make links in a directory that lead to files by relative paths, each in one step."""
    directory.mkdir(parents=True, exist_ok=True)
    for file in files:
        fresh = directory / f".{file.name}.new"
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(os.path.relpath(file, directory))
        os.replace(fresh, directory / file.name)


def build() -> None:
    """Build the Go library and the CPU plugin into the source tree.

    Each has a lock of its own: who waits for the plugin has the new Go library. The plugin's libraries,
    634 MB, are linked to, not copied.
    """
    tools = toolchain()
    build_go(tools)
    with exclusive(BUILD / "lock-xlacpu"):
        _link(plugin.build(tools), SOURCE_TREE / PACKAGE / "_lib")
