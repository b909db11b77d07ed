"""What is installed here, which plugins and devices there are: what `torch_go_xla.info` returns."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import plugins
from ._core import core
from ._version import __version__

# Variables beside those of the core that change how a device is found, opened or compiled for.
_PREFIXES = ("XLA_", "PJRT_", "PT_XLA_", "TORCH_GO_XLA_", "CPU_NUM_", "CUDA_VISIBLE_", "TPU_", "TF_", "LD_", "JAX_")
_JOB = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_PACKAGES = ("torch", "numpy", "pjrt-xla-cpu", "jax-cuda13-pjrt", "libtpu", "torch_xla", "jax", "tensorflow-cpu")


def _versions() -> dict[str, str]:
    """Return the versions of the system, the package, its core, and the packages that matter to it."""
    found = {
        "python": f"{platform.python_version()} ({sys.executable})",
        "system": f"{platform.platform()}, {os.cpu_count()} CPUs",
        "torch_go_xla": f"{__version__} ({Path(__file__).parent})",
        "core": core.version(),
    }
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def _plugins() -> dict[str, str]:
    """Return, for each known device name, the library that serves it, or why there is none."""
    found = {}
    for name in plugins.known():
        try:
            found[name] = plugins.find_plugin(name).library_path()
        except Exception as error:  # a package's entry point may raise anything
            found[name] = f"not found: {error}"
    return found


def real_devices() -> list[str]:
    """Return the hardware's names of the devices; see `torch_go_xla.real_devices`."""
    return [f"{d['platform'].upper()}:{d['index']}" for d in core.devices()]


def _devices() -> list[str] | str:
    """Return a line for each device of this process, or why they do not open."""
    try:
        names = real_devices()
        return [f"xla:{i} is {name}{_memory(i)}" for i, name in enumerate(names)]
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _memory(index: int) -> str:
    """Return how much of a device's memory is in use, if the plugin tells."""
    try:
        figures = core.memory_info(index)
    except Exception:  # a plugin need not tell
        return ""
    used, limit = (figures.get(key, 0) / 2**30 for key in ("bytes_used", "bytes_limit"))
    return f", {used:.1f} of {limit:.1f} GiB in use" if limit else ""


def _cache() -> dict[str, str]:
    """Return the folder of the persistent cache with its size, and the number of programs in memory."""
    folder = os.environ.get("XLA_PERSISTENT_CACHE_PATH", "")
    text = "none (XLA_PERSISTENT_CACHE_PATH is not set)"
    if folder:
        files = [p for p in Path(folder).rglob("*") if p.is_file()]
        text = f"{folder}: {len(files)} files, {sum(p.stat().st_size for p in files) / 2**20:.1f} MiB"
    return {"folder": text, "programs in memory": str(core.cached_programs())}


def _environment() -> dict[str, str]:
    """Return the variables that are set and change what this package does."""
    known = {row[0] for row in core.config_table()} | {*_JOB}
    return {k: v for k, v in sorted(os.environ.items()) if k in known or k.startswith(_PREFIXES)}


SECTIONS: dict[str, Callable[[], Any]] = {
    "versions": _versions,
    "environment": _environment,
    "plugins": _plugins,
    "devices": _devices,
    "cache": _cache,
}


def info() -> dict[str, Any]:
    """Return what `torch_go_xla.doctor` prints, without its checks, by section: values that JSON can hold.

    The device of ``PJRT_DEVICE`` is opened. What cannot be found or opened is said in its place; nothing is raised.

    Returns:
        ``versions``, ``environment``, ``plugins`` and ``cache``: texts by name; ``devices``: a list of texts, or the
        error's text.

    Example:
        >>> from torch_go_xla.doctor import info
        >>> list(info())
        ['versions', 'environment', 'plugins', 'devices', 'cache']
    """
    return {name: find() for name, find in SECTIONS.items()}
