"""Registers the plugin with JAX, as its platform ``xla_cpu``. JAX calls `initialize` through an entry point."""

from __future__ import annotations

import os

from . import library_path, set_environment

_NAME = "xla_cpu"


def initialize() -> None:
    """Register the platform if ``JAX_PLATFORMS`` or ``jax.config.jax_platforms`` asks for it.

    Otherwise nothing happens. JAX opens every platform that is registered. A second CPU client would cost each program
    a third of a second where this package is installed.
    """
    import jax

    asked = jax.config.jax_platforms or ""
    if _NAME not in asked.split(",") or "PJRT_NAMES_AND_LIBRARY_PATHS" in os.environ:
        return
    from jax._src import xla_bridge

    set_environment()
    xla_bridge.register_plugin(_NAME, library_path=library_path())
