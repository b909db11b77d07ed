"""The null plugin as the device of a test's process: it notes the calls that reach it, in their order.

A test's program, run in a process of its own, begins with ``null = null_device.use(sys.argv[1])``.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The order of the plugin's accounts.
LIVE = ("clients", "events", "compiled", "errors", "buffers", "loaded", "data", "bytes", "violations")
SOURCES = ROOT / "pjrt" / "nullplugin" / "csrc"


def build(folder: Path) -> Path:
    """Compile the plugin."""
    library = folder / "libpjrt_null.so"
    compiler = os.environ.get("CC", "cc").split()
    options = ["-std=gnu11", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread", "-o", str(library)]
    subprocess.run([*compiler, *options, *sorted(map(str, SOURCES.glob("*.c")))], check=True)
    return library


class Null:
    """The plugin's state, beside the PJRT interface."""

    def __init__(self, library: str) -> None:
        self._library = ctypes.CDLL(library)
        self._library.null_function_name.restype = ctypes.c_char_p
        self._library.null_trace_read.restype = ctypes.c_size_t

    def arm(self, fault: str) -> None:
        """Have a call fail: "Function:k:CODE:message" is the k-th from now, "Function@event:..." its event."""
        self._library.null_arm(fault.encode())

    def disarm(self) -> bool:
        """Take back what has not failed yet; return whether there was any."""
        armed = self._library.null_armed() != 0
        self._library.null_disarm()
        return armed

    def live(self) -> dict[str, int]:
        """Return how many things of each kind there are that were given out and not given back."""
        counts = (ctypes.c_int64 * len(LIVE))()
        self._library.null_live(counts)
        return dict(zip(LIVE, counts, strict=True))

    def start_trace(self) -> None:
        """Begin a new trace."""
        self._library.null_trace(1)

    def stop_trace(self) -> list[str]:
        """End the trace; return the names of the functions called."""
        self._library.null_trace(0)
        count = self._library.null_trace_read(None, ctypes.c_size_t(0))
        numbers = (ctypes.c_int32 * count)()
        self._library.null_trace_read(numbers, ctypes.c_size_t(count))
        return [self._library.null_function_name(n).decode() for n in numbers]


def use(library: str, **options: int) -> Null:
    """Make the plugin the device of this process, which has none yet."""
    from torch_go_xla import plugins

    class Plugin(plugins.DevicePlugin):
        def library_path(self) -> str:
            return library

        def client_create_options(self) -> Mapping[str, int]:
            return options

    plugins.register_plugin("NULL", Plugin())
    os.environ["PJRT_DEVICE"] = "NULL"
    return Null(library)
