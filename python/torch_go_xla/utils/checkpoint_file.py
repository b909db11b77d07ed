"""Files of tensors: streamed, of one moment, whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import sys
import time
from collections.abc import Callable, Iterator
from typing import IO, Any

import torch

from .._backend.storage import saved_as_cpu

# A save shorter than this shows no progress, in seconds.
_PATIENCE = 2.0
_REFRESH = 0.2


class _Progress:
    """A line on the terminal for saves that take long."""

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._clock = clock
        self._start = clock()
        self._next = self._start + _PATIENCE
        self._shown = False

    def __call__(self, done: int, total: int) -> None:
        """Report bytes written and bytes in all."""
        now = self._clock()
        if now < self._next or not sys.stderr.isatty():
            return
        self._next, self._shown = now + _REFRESH, True
        share = done / max(total, 1)
        bar = "#" * int(share * 30)
        rate = done / (now - self._start) / 1e6
        sys.stderr.write(
            f"\r{self._what}: {share:4.0%} |{bar:30}| {done / 1e9:.2f}/{total / 1e9:.2f} GB, {rate:.0f} MB/s"
        )
        sys.stderr.flush()

    def close(self) -> None:
        """Take the line away."""
        if self._shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[str]:
    """Give the path of a new file that takes the place of ``path`` when the block ends well, and vanishes if not.

    At every moment, a crash included, ``path`` is the old file or the new one, whole and on the disk. A link is
    followed, and what is no regular file (``/dev/null``, a pipe) is given as it is. OSError says what failed.
    """
    path = os.path.realpath(os.fspath(path))
    if os.path.exists(path) and not os.path.isfile(path):
        yield path
        return
    folder = os.path.dirname(path)
    beside = os.path.join(folder, f".{os.path.basename(path)[:200]}.{secrets.token_hex(6)}.part")
    os.close(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        yield beside
        with contextlib.suppress(FileNotFoundError):
            os.chmod(beside, stat.S_IMODE(os.stat(path).st_mode))
        _to_disk(beside, os.O_RDWR)
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside)
        raise
    _to_disk(folder, os.O_RDONLY)


def _to_disk(path: str, flags: int) -> None:
    fd = os.open(path, flags)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def save(data: Any, file_or_path: str | os.PathLike[str] | IO[bytes]) -> None:
    """Write data with its xla tensors as CPU tensors, as ``torch.save`` writes those.

    The tensors are of one moment (see `snapshot`) and are fetched one by one while the file is written, so that the
    host needs memory for the largest storage alone. A path is replaced by the whole file; see `replacing`.
    """
    if not isinstance(file_or_path, str | os.PathLike):
        with saved_as_cpu(lambda done, total: None):
            torch.save(data, file_or_path)
        return
    progress = _Progress(f"saving {os.path.basename(file_or_path)}")
    with contextlib.closing(progress), replacing(file_or_path) as path, saved_as_cpu(progress):
        torch.save(data, path)
