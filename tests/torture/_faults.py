"""File system calls that are counted, failed or killed at the k-th: the shim of ``_faults.c`` as Python sees it.

A process that uses it is started in the `environment` that has it loaded before the C library.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path

from . import ROOT

FAIL, FAIL_FROM, KILL, INTERRUPT, SIGNAL = 1, 2, 3, 4, 5


def environment(folder: Path) -> dict[str, str]:
    """Compile the shim into a folder; return the environment of a process that has it."""
    library = folder / "libfaults.so"
    compiler = os.environ.get("CC", "cc").split()
    options = ["-std=gnu11", "-O1", "-Wall", "-Werror", "-fPIC", "-shared", "-pthread", "-o", str(library)]
    subprocess.run([*compiler, *options, str(Path(__file__).with_name("_faults.c")), "-ldl"], check=True)
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "LD_PRELOAD": str(library), "PYTHONPATH": os.pathsep.join(filter(None, paths))}


class Faults:
    """The shim in this process."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        self._library.faults_log.restype = ctypes.c_char_p
        self._library.faults_disarm.restype = ctypes.c_long

    def arm(self, folder: Path, action: int = 0, k: int = 0, error: int = 0) -> None:
        """Count the calls below a folder from now on, and act at the k-th: fail it with an errno, kill, interrupt."""
        self._library.faults_arm(os.fsencode(os.path.realpath(folder)), action, ctypes.c_long(k), error)

    def disarm(self) -> int:
        """Stop; return how many calls there were."""
        return int(self._library.faults_disarm())

    def log(self) -> list[tuple[str, str, str]]:
        """Return the calls since `arm`: name, path, and the new path of a rename."""
        lines = self._library.faults_log().decode().splitlines()
        return [(call, path, to) for call, path, to in (line.split("\t") for line in lines)]


def unflushed(log: list[tuple[str, str, str]]) -> list[str]:
    """Return what would be lost if the power failed: where a rename or the end finds what is not on the disk.

    At a rename all files must be, and the names in all folders except those that lead to the renamed file.
    """
    found: list[str] = []
    files: set[str] = set()
    folders: set[str] = set()

    def under(path: str, names: set[str]) -> set[str]:
        return {n for n in names if n == path or n.startswith(path + "/")}

    for call, path, to in log:
        if call.startswith(("write", "pwrite", "ftruncate", "fchmod", "fchown")):
            files.add(path)
        elif call in ("fsync", "fdatasync"):
            files.discard(path)
            folders.discard(path)
        elif call.startswith(("open", "mkdir")):
            folders.add(os.path.dirname(path))
        elif call.startswith(("unlink", "rmdir")):
            files -= under(path, files)
            folders -= under(path, folders)
        elif call.startswith("rename"):
            late = files | {f for f in folders if not (path + "/").startswith(f + "/")}
            found += [f"{name} is not flushed when {path} is renamed to {to}" for name in sorted(late)]
            for names in (files, folders):
                moved = under(path, names)
                names -= moved
                names |= {to + name[len(path) :] for name in moved}
            if not to.endswith(".old"):  # what goes away may come back
                folders.add(os.path.dirname(to))
    return found + [f"{name} is not flushed at the end" for name in sorted(files | folders)]
