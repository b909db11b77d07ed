"""What has to be installed before the package can be built on this machine."""

from __future__ import annotations

import tomllib

from . import ROOT, plugin
from .toolchain import GO_PACKAGE, find_go


def native_requirements() -> list[str]:
    """Return the requirements that depend on the machine and the environment."""
    out = [] if find_go() else [GO_PACKAGE]
    if plugin.wanted():
        out.append(plugin.requirement())
    return out


def extra_requirements(*extras: str) -> list[str]:
    """Return what the named extras of the package need beside the package itself."""
    optional = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    return [requirement for extra in extras for requirement in optional[extra]]


def all_requirements() -> list[str]:
    """Return every build requirement, for installs without build isolation."""
    system = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]
    return [*system["requires"], *native_requirements()]
