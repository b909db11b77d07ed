"""Files that are there whole or not at all, on the disk when they are there.

A new file is written beside the old one, flushed and renamed. It is written past the page cache where the file
system allows that: the data go from one small buffer to the disk while the next is filled, so that there is nothing
left to wait for when they are flushed, and no memory of the host is taken for a file that is seldom read soon.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import secrets
import stat
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

_CHUNK = 2 << 20  # bytes of a buffer
_BUFFERS = 3  # one is filled while the others are written
_BLOCK = 4096  # what addresses, offsets and sizes past the page cache must be multiples of
_SUFFIX = ".part"


class Sink(Protocol):
    """What a file is written to."""

    def write(self, data: memoryview, /) -> int:
        """Take bytes, which may be overwritten after the call; return their number."""

    def flush(self) -> None:
        """Do nothing that could not be left out."""


class _Stream:
    """Writes a new file in order, by threads. An error waits for `finish`: the caller may not be able to take it."""

    def __init__(self, fd: int, wrote: Callable[[int], None]) -> None:
        self._fd = fd
        self._wrote = wrote
        self._threads = ThreadPoolExecutor(_BUFFERS - 1, "write")
        self._free = deque(memoryview(mmap.mmap(-1, _CHUNK)) for _ in range(_BUFFERS))
        self._full: deque[tuple[Future[None], memoryview]] = deque()
        self._used = 0  # of the buffer that is being filled, the first of the free ones
        self._offset = 0  # of that buffer in the file
        self._error: OSError | None = None
        _set_direct(fd, True)

    def write(self, data: memoryview | bytes, /) -> int:
        source = memoryview(data).cast("B")
        at = 0
        while at < len(source) and self._error is None:
            n = min(len(source) - at, _CHUNK - self._used)
            self._free[0][self._used : self._used + n] = source[at : at + n]
            self._used += n
            at += n
            if self._used == _CHUNK:
                self._hand_over(_CHUNK)
            self._wrote(n)
        return len(source)

    def flush(self) -> None:
        pass

    def finish(self) -> None:
        """Write what is left; OSError says what has failed since the start."""
        size = self._offset + self._used
        if self._used:
            padded = -(-self._used // _BLOCK) * _BLOCK
            self._free[0][self._used : padded] = bytes(padded - self._used)
            self._hand_over(padded)
        while self._full:
            self._reclaim()
        if self._error is not None:
            raise self._error
        os.ftruncate(self._fd, size)

    def close(self) -> None:
        """End the threads; the file is the caller's."""
        self._threads.shutdown()

    def _hand_over(self, size: int) -> None:
        buffer = self._free.popleft()
        self._full.append((self._threads.submit(self._put, buffer[:size], self._offset), buffer))
        self._offset += size
        self._used = 0
        if not self._free:
            self._reclaim()

    def _reclaim(self) -> None:
        """Wait for the oldest buffer that is being written."""
        done, buffer = self._full.popleft()
        self._free.append(buffer)
        try:
            done.result()
        except OSError as e:
            self._error = self._error or e

    def _put(self, data: memoryview, offset: int) -> None:
        while data:
            try:
                n = os.pwrite(self._fd, data, offset)
            except OSError as e:
                # Some file systems refuse only now, or want larger blocks.
                if e.errno != errno.EINVAL or not _set_direct(self._fd, False):
                    raise
                continue
            data, offset = data[n:], offset + n


def _set_direct(fd: int, on: bool) -> bool:
    """Have a file written past the page cache, or no longer; tell whether that changes something."""
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    wanted = flags | os.O_DIRECT if on else flags & ~os.O_DIRECT
    try:
        fcntl.fcntl(fd, fcntl.F_SETFL, wanted)
    except OSError:
        return False
    return flags != wanted


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], wrote: Callable[[int], None] = lambda n: None) -> Iterator[Sink]:
    """Give a new file that takes the place of ``path`` when the block ends well, and vanishes if not.

    At every moment, a crash included, ``path`` is the old file or the new one, whole and on the disk. What processes
    that were killed have left of files that were to take the place of ``path`` is removed. A link is followed, and
    what is no regular file (``/dev/null``, a pipe) is written as it is. ``wrote`` is told of each few bytes that were
    taken. OSError says what failed.
    """
    path = os.path.realpath(os.fspath(path))
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as special:
            yield special
        return
    with _beside(path) as (fd, _), contextlib.closing(_Stream(fd, wrote)) as stream:
        yield stream
        stream.finish()


@contextlib.contextmanager
def replacing_by_name(path: str | os.PathLike[str]) -> Iterator[str]:
    """Give the name of the new file, for a library that opens files itself; else as `replacing`."""
    path = os.path.realpath(os.fspath(path))
    if os.path.exists(path) and not os.path.isfile(path):
        yield path
        return
    with _beside(path) as (_, beside):
        yield beside


@contextlib.contextmanager
def new(path: str, wrote: Callable[[int], None]) -> Iterator[Sink]:
    """Give a new file at a path that nobody knows yet. It may not be on the disk before `flush`."""
    fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)
    try:
        with contextlib.closing(_Stream(fd, wrote)) as stream:
            yield stream
            stream.finish()
    finally:
        os.close(fd)


def flush(path: str) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


# ---- files that are being written ----


@contextlib.contextmanager
def _beside(path: str) -> Iterator[tuple[int, str]]:
    """Make a file, open and by name, that is flushed and takes the place of the regular file ``path``."""
    folder, prefix = os.path.dirname(path), _prefix(path)
    _remove_abandoned(folder, prefix)
    fd, beside = _create(folder, prefix)
    try:
        yield fd, beside
        with contextlib.suppress(FileNotFoundError):
            os.fchmod(fd, stat.S_IMODE(os.stat(path).st_mode))
        os.fsync(fd)
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside)
        raise
    finally:
        os.close(fd)
    flush(folder)


# Whoever writes one holds a lock on it, which ends with the process: one without a lock is abandoned. That also holds
# between machines and containers, where the number of a process says nothing.


def _prefix(path: str) -> str:
    return f".{os.fsdecode(os.fsencode(os.path.basename(path))[:200])}."


def _create(folder: str, prefix: str) -> tuple[int, str]:
    """Make a locked file; return it open, and its path."""
    while True:
        path = os.path.join(folder, f"{prefix}{secrets.token_hex(6)}{_SUFFIX}")
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o666)
        # Between the two calls it looked abandoned, and may have been removed.
        if lock(fd) is not False and os.fstat(fd).st_nlink:
            return fd, path
        os.close(fd)


def _remove_abandoned(folder: str, prefix: str) -> None:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name
            if not (name.startswith(prefix) and name.endswith(_SUFFIX) and "." not in name[len(prefix) : -5]):
                continue
            with contextlib.suppress(OSError):
                fd = os.open(entry.path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
                try:
                    if lock(fd):
                        os.unlink(entry.path)
                finally:
                    os.close(fd)


def lock(fd: int, shared: bool = False) -> bool | None:
    """Lock an open file or folder; False if someone else has, None where the file system has no locks."""
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True
