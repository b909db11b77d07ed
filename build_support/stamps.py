"""Decides whether the output of a build step is still good.

A step is identified by a digest over the contents of its inputs and the
settings it ran with, not by file times. Installers unpack headers again, and
a checkout sets new times, without anything having changed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from . import ROOT


def digest(files: Iterable[Path], *settings: str) -> str:
    """Return the SHA-256 over the settings and the names and contents of the files."""
    h = hashlib.sha256()
    for text in settings:
        h.update(text.encode() + b"\0")
    for path in sorted(files):
        h.update(os.path.relpath(path, ROOT).encode() + b"\0")
        h.update(hashlib.sha256(path.read_bytes()).digest())
    return h.hexdigest()


def fresh(stamp: Path, value: str, outputs: Iterable[Path]) -> bool:
    """Tell whether the outputs exist and were made from the inputs with this digest."""
    return stamp.is_file() and stamp.read_text() == value and all(p.is_file() for p in outputs)


@contextlib.contextmanager
def exclusive(lock: Path) -> Iterator[None]:
    """Hold a lock file, so that two builds of one source tree do not mix their outputs."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield
