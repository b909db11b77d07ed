"""What has to be installed before the package can be built on this machine."""

from __future__ import annotations

import tomllib

from . import ROOT, plugin
from .toolchain import GO_PACKAGE, find_go


def native_requirements() -> list[str]:
    """Return the requirements of the Go library that depend on the machine."""
    return [] if find_go() else [GO_PACKAGE]


def package_build_requirements() -> list[str]:
    """Return what a wheel of torch-go-xla needs to be built, without its CPU plugin."""
    system = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]
    return [*system["requires"], *native_requirements()]


def extra_requirements(*extras: str) -> list[str]:
    """Return what the named extras of the package need beside the package itself."""
    optional = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    return [requirement for extra in extras for requirement in optional[extra]]


def all_requirements() -> list[str]:
    """Return every build requirement, the CPU plugin's too, for builds without isolation."""
    return [*package_build_requirements(), plugin.requirement()]
