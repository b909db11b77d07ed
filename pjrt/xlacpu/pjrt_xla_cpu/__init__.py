"""XLA's CPU backend as a PJRT plugin, for any PJRT client.

The package holds four shared libraries; the others are found beside the one that is opened. It needs no other package,
and it does not meet a TensorFlow in the same process, of whatever version.

    import pjrt_xla_cpu
    path = pjrt_xla_cpu.library_path()   # what a PJRT client opens; it exports GetPjrtApi

JAX finds the plugin by itself: ``JAX_PLATFORMS=xla_cpu python program.py``.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["library_path", "set_environment"]

_LIBRARY = "libpjrt_xla_cpu.so"

# Both are read when XLA's libraries are loaded. oneDNN would write a line to stderr, though XLA:CPU does not use it.
# XLA would write one for each compilation that it partitions.
_ENVIRONMENT = {"TF_ENABLE_ONEDNN_OPTS": "0", "TF_CPP_MIN_LOG_LEVEL": "2"}


def library_path() -> str:
    """Return the absolute path of the plugin's shared library.

    Raises:
        RuntimeError: the library is missing, as in a source tree that was not built.

    Example:
        >>> import os, pjrt_xla_cpu
        >>> os.path.basename(pjrt_xla_cpu.library_path())
        'libpjrt_xla_cpu.so'
    """
    path = Path(__file__).resolve().parent / _LIBRARY
    if not path.exists():
        raise RuntimeError(f"{path} is missing: reinstall pjrt-xla-cpu")
    return str(path)


def set_environment() -> None:
    """Set the variables that keep XLA's libraries quiet, unless they are set. Call it before the plugin is loaded."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
