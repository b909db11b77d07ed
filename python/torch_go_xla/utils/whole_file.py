"""Files that are there whole or not at all, on the disk when they are there.

A new file is written next to the old one, flushed and renamed. It bypasses the page cache where the file system allows
that. One small buffer is written to the disk while the next is filled, so the flush has nothing left to wait for. It
also takes no page cache for a file that is seldom read soon.
"""

from __future__ import annotations

import _thread
import contextlib
import errno
import fcntl
import mmap
import os
import secrets
from collections import deque
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Protocol

from .file_attributes import Attributes

__all__ = ["Sink", "attributes", "flush", "lock", "new", "new_folder", "open_folder", "replacing"]

_CHUNK = 2 << 20  # bytes of a buffer
_BUFFERS = 3  # one is filled while the others are written
_BLOCK = 4096  # what addresses, offsets and sizes past the page cache must be multiples of
_SUFFIX = ".part"
_NEW = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC


class Sink(Protocol):
    r"""What a file is written to.

    Example:
        >>> import os, tempfile
        >>> from torch_go_xla.utils.whole_file import Sink, replacing
        >>> def number(sink: Sink, lines: list[str]) -> None:
        ...     for i, line in enumerate(lines):
        ...         sink.write(memoryview(f"{i} {line}\n".encode()))
        >>> path = os.path.join(tempfile.mkdtemp(), "lines.txt")
        >>> with replacing(path) as sink:
        ...     number(sink, ["first", "second"])
        >>> open(path).read()
        '0 first\n1 second\n'
    """

    def write(self, data: memoryview, /) -> int:
        """Take bytes, which may be overwritten after the call.

        Args:
            data: the bytes.

        Returns:
            Their number.
        """

    def flush(self) -> None:
        """Do nothing that could not be left out. A program that writes to files calls it.

        Example:
            >>> import os, tempfile
            >>> from torch_go_xla.utils.whole_file import replacing
            >>> with replacing(os.path.join(tempfile.mkdtemp(), "x")) as sink:
            ...     sink.flush()
        """


class _Writing:
    """A buffer on its way to the file."""

    def __init__(self, data: memoryview, offset: int) -> None:
        self._data, self._offset = data, offset
        self._error: BaseException | None = None
        self._done = _thread.allocate_lock()
        self._done.acquire()

    def run(self, fd: int) -> None:
        try:
            _put(fd, self._data, self._offset)
        except BaseException as e:
            self._error = e
        finally:
            self._done.release()

    def result(self) -> None:
        """Wait; raise what has failed."""
        with self._done:
            pass
        if self._error is not None:
            raise self._error


def _write_in_order(fd: int, work: SimpleQueue[_Writing | None], ended: _thread.LockType) -> None:
    """Write buffers until there is None. The file is this thread's own: an interrupted save may close the other."""
    try:
        while (writing := work.get()) is not None:
            writing.run(fd)
            del writing
    finally:
        os.close(fd)
        ended.release()


class _Stream:
    """Writes a file from its start, by threads. An error waits for `finish`: the caller may not be able to take it.

    The threads are not those of `concurrent.futures`. Its executors have a lock for the whole process. A signal handler
    that saves during a save would wait for it for ever. They also refuse work once the main thread has ended. If no
    thread can be started, as when the interpreter exits, the caller writes.
    """

    def __init__(self, fd: int, wrote: Callable[[int], None], empty: bool = True) -> None:
        self._fd = fd
        self._wrote = wrote
        self._empty = empty
        self._work: SimpleQueue[_Writing | None] = SimpleQueue()
        self._ended: list[_thread.LockType] = []  # one a thread, free when it has ended
        self._free = deque(memoryview(mmap.mmap(-1, _CHUNK)) for _ in range(_BUFFERS))
        self._full: deque[tuple[_Writing, memoryview]] = deque()
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
        for _ in range(_BUFFERS - 1):
            self._work.put(None)
        for ended in self._ended:
            with ended:
                pass

    def _hand_over(self, size: int) -> None:
        buffer = self._free.popleft()
        writing = _Writing(buffer[:size], self._offset)
        if not self._empty:  # only now is the old content of the file lost
            os.ftruncate(self._fd, 0)
            self._empty = True
        # A file of one buffer needs no thread.
        if (self._offset or size == _CHUNK) and (len(self._ended) == _BUFFERS - 1 or self._start() or self._ended):
            self._work.put(writing)
        else:
            writing.run(self._fd)
        self._full.append((writing, buffer))
        self._offset += size
        self._used = 0
        if not self._free:
            self._reclaim()

    def _start(self) -> bool:
        """Start a thread, if that is possible."""
        ended = _thread.allocate_lock()
        ended.acquire()
        try:
            fd = os.dup(self._fd)
        except OSError:
            return False
        try:
            _thread.start_new_thread(_write_in_order, (fd, self._work, ended))
        except RuntimeError:
            os.close(fd)
            return False
        self._ended.append(ended)
        return True

    def _reclaim(self) -> None:
        """Wait for the oldest buffer that is being written."""
        done, buffer = self._full.popleft()
        self._free.append(buffer)
        try:
            done.result()
        except OSError as e:
            self._error = self._error or e


def _put(fd: int, data: memoryview, offset: int) -> None:
    refused = False
    while data:
        try:
            n = os.pwrite(fd, data, offset)
        except OSError as e:
            # Some file systems refuse only now, or want larger blocks. Another thread may have met that first.
            if e.errno != errno.EINVAL or (not _set_direct(fd, False) and refused):
                raise
            refused = True
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
    """Yield a new file that takes the place of ``path`` when the block ends well, and vanishes if not.

    At every moment, a crash included, ``path`` is the old file or the new one, whole and on the disk. The new one has
    the owner, group, mode and extended attributes of the old, before the first byte is written. Temporary files for
    ``path`` that killed processes left are removed. A link is followed. Other than regular files (``/dev/null``, a
    pipe) are written directly.

    A file that can be written but not replaced is written in place, as ``torch.save`` does. Its folder is not writable,
    or a new file cannot get its owner. The old content is then lost once the first 2 MB, or all if that is less, are
    ready. A crash after that leaves neither. A file that is a mount point is overwritten when the new content is
    complete.

    Args:
        path: the file.
        wrote: is called with the number of bytes of each chunk.

    Raises:
        PermissionError: the old file is write-protected. Nothing was written.
        OSError: writing failed.

    Example:
        >>> import os, tempfile
        >>> from torch_go_xla.utils.whole_file import replacing
        >>> path = os.path.join(tempfile.mkdtemp(), "notes.txt")
        >>> with replacing(path) as file:
        ...     size = file.write(b"whole")
        ...     os.path.exists(path)
        False
        >>> open(path).read()
        'whole'
    """
    path = os.path.realpath(os.fspath(path))
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as special:
            yield special
        return
    with _opened(path) as old:
        part = _create_beside(path, old)
        with _in_place(old, path) if part is None else _beside(*part, path, old) as fd:
            with contextlib.closing(_Stream(fd, wrote, empty=part is not None)) as stream:
                yield stream
                stream.finish()


@contextlib.contextmanager
def new(path: str, wrote: Callable[[int], None], like: Attributes | None = None) -> Iterator[Sink]:
    """Create a file, and yield what it is written to. It may not be on the disk before `flush`.

    Args:
        path: an unused path.
        wrote: is called with the number of bytes of each chunk.
        like: the attributes that the file gets; only their users can open it.

    Raises:
        FileExistsError: the path is used.
        OSError: writing failed.

    Example:
        >>> import os, tempfile
        >>> from torch_go_xla.utils import whole_file
        >>> path = os.path.join(tempfile.mkdtemp(), "notes.txt")
        >>> with whole_file.new(path, wrote=print) as file:
        ...     size = file.write(b"whole")
        5
    """
    fd = os.open(path, _NEW, 0o666 if like is None else 0o600)
    try:
        if like is not None:
            like.give_rights(fd)
        with contextlib.closing(_Stream(fd, wrote)) as stream:
            yield stream
            stream.finish()
    finally:
        os.close(fd)


def attributes(path: str) -> Attributes | None:
    """Return what a file has that takes the place of ``path``; None if there is none yet.

    Args:
        path: the path of a file or folder.

    Example:
        >>> import tempfile
        >>> from torch_go_xla.utils import whole_file
        >>> oct(whole_file.attributes(tempfile.mkdtemp()).mode)
        '0o700'
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    try:
        return Attributes.of(fd)
    finally:
        os.close(fd)


def flush(path: str) -> None:
    """Wait until a file, or the names in a folder, are on the disk.

    Args:
        path: the path of the file or folder.

    Raises:
        OSError: there is no such file, or the disk fails.

    Example:
        >>> import tempfile
        >>> from torch_go_xla.utils import whole_file
        >>> whole_file.flush(tempfile.mkdtemp())
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError:  # a folder in which this user may make files, but not read
        os.sync()
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


# ---- files that are being written ----


@contextlib.contextmanager
def _opened(path: str) -> Iterator[int | None]:
    """Open the old file to write, unless there is none. Who may not write it may not replace it."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        fd = None
    try:
        yield fd
    finally:
        if fd is not None:
            os.close(fd)


def _create_beside(path: str, old: int | None) -> tuple[int, str] | None:
    """Make a file that can take the place of another; None if it has to be written in place."""
    folder, prefix = os.path.dirname(path), _prefix(path)
    _remove_abandoned(folder, prefix)
    try:
        return _create(folder, prefix, None if old is None else Attributes.of(old))
    except OSError as e:
        if old is None or e.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        return None


@contextlib.contextmanager
def _beside(fd: int, beside: str, path: str, old: int | None) -> Iterator[int]:
    """Give an open file, which is then flushed and takes the place of the regular file ``path``.

    A mount point, as a file that a container was given by itself, keeps its place (EBUSY) and gets the content.
    """
    try:
        yield fd
        os.fsync(fd)
        try:
            os.replace(beside, path)
        except OSError as e:
            if e.errno != errno.EBUSY or old is None:
                raise
            with _in_place(old, path) as to:
                _copy(fd, to)
            os.unlink(beside)
    except BaseException:
        with contextlib.suppress(OSError):  # it has its new name, or nothing can be removed here now
            os.unlink(beside)
        raise
    finally:
        os.close(fd)
    flush(os.path.dirname(path))


def _copy(source: int, to: int) -> None:
    """Overwrite a file with another, which is not being written."""
    _set_direct(source, False)
    size, at = os.fstat(source).st_size, 0
    while at < size:
        data = memoryview(os.pread(source, min(_CHUNK, size - at), at))
        _put(to, data, at)
        at += len(data)
    os.ftruncate(to, size)


@contextlib.contextmanager
def _in_place(old: int | None, path: str) -> Iterator[int]:
    """Give an open file as it is, which is then flushed."""
    assert old is not None
    if lock(old) is False:
        raise BlockingIOError(errno.EWOULDBLOCK, "another save writes this file, which cannot be replaced", path)
    yield old
    os.fsync(old)


# A process that writes one holds a lock on it, which ends with the process: one without a lock is abandoned. That also
# holds between machines and containers, where the number of a process says nothing.


def _prefix(path: str) -> str:
    return f".{os.fsdecode(os.fsencode(os.path.basename(path))[:200])}."


def _create(folder: str, prefix: str, like: Attributes | None) -> tuple[int, str]:
    """Make a locked file; return it open, and its path."""
    while True:
        path = os.path.join(folder, f"{prefix}{secrets.token_hex(6)}{_SUFFIX}")
        fd = os.open(path, _NEW, 0o666 if like is None else 0o600)
        try:
            # Between the two calls it looked abandoned, and may have been removed.
            if lock(fd) is not False and os.fstat(fd).st_nlink:
                if like is not None:
                    like.give(fd)
                return fd, path
        except BaseException:
            os.close(fd)
            os.unlink(path)
            raise
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


@contextlib.contextmanager
def open_folder(path: str) -> Iterator[int]:
    """Open a folder, to lock or flush it, and yield its descriptor.

    Args:
        path: the path of the folder.

    Raises:
        OSError: there is no such folder, or this user cannot read it.

    Example:
        >>> import tempfile
        >>> from torch_go_xla.utils import whole_file
        >>> with whole_file.open_folder(tempfile.mkdtemp()) as fd:
        ...     whole_file.lock(fd)
        True
    """
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


@contextlib.contextmanager
def new_folder(parent: str, name: Callable[[], str]) -> Iterator[tuple[str, int]]:
    """Make a folder of a new name, which is locked within the block. Yields its path and the open folder.

    Args:
        parent: the path of the folder that it is made in.
        name: returns a name, and another at each call.

    Raises:
        FileExistsError: the name is used.

    Example:
        >>> import os, secrets, tempfile
        >>> from torch_go_xla.utils import whole_file
        >>> parent = tempfile.mkdtemp()
        >>> with whole_file.new_folder(parent, lambda: secrets.token_hex(8)) as (path, fd):
        ...     os.path.dirname(path) == parent
        True
    """
    while True:
        path = os.path.join(parent, name())
        os.mkdir(path)
        with contextlib.ExitStack() as stack:
            try:
                fd = stack.enter_context(open_folder(path))
            except FileNotFoundError:
                continue
            if lock(fd) is False or not os.fstat(fd).st_nlink:
                continue  # it looked abandoned, before it was locked
            yield path, fd
            return


def lock(fd: int, shared: bool = False) -> bool | None:
    """Lock an open file or folder, until it is closed.

    Args:
        fd: its descriptor.
        shared: other shared locks are allowed.

    Returns:
        True, False if someone else has a lock, None where the file system has no locks.

    Example:
        >>> import tempfile
        >>> from torch_go_xla.utils import whole_file
        >>> with tempfile.NamedTemporaryFile() as first, open(first.name) as second:
        ...     whole_file.lock(first.fileno()), whole_file.lock(second.fileno())
        (True, False)
    """
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True
