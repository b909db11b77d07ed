"""Builds everything and puts it in place."""

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
    """Return what `build` writes, relative to the directory that holds the package."""
    out = [PACKAGE / "_go" / name for name in (surface.library_name(), *surface.modules())]
    if plugin.wanted():
        out.append(PACKAGE / "_lib" / plugin.LIBRARY)
    return out


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


def build(destination: Path = SOURCE_TREE) -> None:
    """Build the libraries and copy them into the package under destination.

    Each has a lock of its own: who waits for the plugin has the new Go library.
    """
    tools = toolchain()
    build_go(tools, destination)
    if plugin.wanted():
        with exclusive(BUILD / "lock-xlacpu"):
            _install(plugin.build(tools), destination / PACKAGE / "_lib")
