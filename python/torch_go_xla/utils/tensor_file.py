"""Files of tensors: streamed, of one moment, whole or not at all."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable
from typing import IO, Any, cast

import torch
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.utils._pytree import tree_leaves, tree_map_only

from .. import plugins
from .._backend.core import native
from .._backend.snapshot import plainly, unwrapped
from .._backend.storage import saved_as_cpu
from .whole_file import Sink, replacing

__all__ = ["Progress", "save", "write"]

# A save shorter than this shows no progress, in seconds.
_PATIENCE = 2.0
_REFRESH = 0.2


class Progress:
    """A line on the terminal for saves that take longer than two seconds.

    Args:
        what: the text before the figures.
        clock: returns the time in seconds.

    Attributes:
        total: the bytes that are to be written, once known.

    Example:
        >>> from torch_go_xla.utils.tensor_file import Progress
        >>> progress = Progress("saving model.pt")
        >>> progress.begin(8_000_000)
        >>> progress.wrote(2_000_000)  # shown if standard error is a terminal
        >>> progress.close()
    """

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.total = 0
        self._what = what
        self._clock = clock
        self._start = clock()
        self._next = self._start + _PATIENCE
        self._done = 0
        self._shown = False

    def begin(self, total: int) -> None:
        """Say how much is to be written.

        Args:
            total: in bytes.
        """
        self.total = total

    def wrote(self, nbytes: int) -> None:
        """Count what was written, and show it.

        Args:
            nbytes: in bytes, since the last call.
        """
        self._done += nbytes
        now = self._clock()
        if now < self._next or not _on_terminal() or not plugins.is_on(native().setting("TORCH_GO_XLA_PROGRESS")):
            return
        self._next, self._shown = now + _REFRESH, True
        share = min(self._done / max(self.total, 1), 1)
        bar = "#" * int(share * 30)
        rate = self._done / (now - self._start) / 1e6
        _show(
            f"\r{self._what}: {share:4.0%} |{bar:30}| {self._done / 1e9:.2f}/{self.total / 1e9:.2f} GB, {rate:.0f} MB/s"
        )

    def close(self) -> None:
        """Remove the line."""
        if self._shown:
            _show("\r\033[K")


# No save fails because its progress cannot be shown. The terminal may be gone, or a signal handler may save while the
# main thread writes to it.


def _on_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, OSError, ValueError):  # there is none, or it is closed
        return False


def _show(text: str) -> None:
    with contextlib.suppress(AttributeError, OSError, RuntimeError, ValueError):
        sys.stderr.write(text)
        sys.stderr.flush()


def write(data: Any, file: Sink | IO[bytes]) -> None:
    """Write data by ``torch.save``; raise the error that has stopped that, an interrupt for one.

    Torch's writer, which is closed in any case, then finds its file incomplete, and would report only that.

    Args:
        data: what ``torch.save`` takes.
        file: a `Sink` or an open binary file.

    Example:
        >>> import io, torch
        >>> from torch_go_xla.utils.tensor_file import write
        >>> file = io.BytesIO()
        >>> write(torch.ones(2), file)
        >>> torch.load(io.BytesIO(file.getvalue()))
        tensor([1., 1.])
    """
    try:
        torch.save(data, cast(IO[bytes], file))
    except RuntimeError as error:
        if error.__context__ is None or "unexpected pos" not in str(error):
            raise
        raise error.__context__ from None


@plainly()
def save(data: Any, file_or_path: str | os.PathLike[str] | IO[bytes]) -> None:
    """Write data with its xla tensors as CPU tensors, as ``torch.save`` writes those.

    The tensors are of one moment (see `snapshot`). They are fetched one by one while the file is written, so the host
    needs memory only for the largest storage. A path is replaced by the complete file; see `replacing`.

    Args:
        data: what ``torch.save`` takes.
        file_or_path: a path, or an open binary file.

    Raises:
        OSError: the file cannot be written. The old file stays.

    Example:
        >>> import os, tempfile, torch, torch_go_xla
        >>> from torch_go_xla.utils import tensor_file
        >>> path = os.path.join(tempfile.mkdtemp(), "x.pt")
        >>> tensor_file.save(torch.ones(2, device="xla"), path)
        >>> torch.load(path)
        tensor([1., 1.])
    """
    # Others are unwrapped as they are pickled. Data without them stay as they are: a copy has tuples for torch.Size.
    if any(isinstance(leaf, FunctionalTensor) for leaf in tree_leaves(data)):
        data = tree_map_only(FunctionalTensor, unwrapped, data)
    if not isinstance(file_or_path, str | os.PathLike):
        with saved_as_cpu():
            write(data, file_or_path)
        return
    progress = Progress(f"saving {os.path.basename(file_or_path)}")
    with (
        contextlib.closing(progress),
        replacing(file_or_path, progress.wrote) as file,
        saved_as_cpu(progress.begin),
    ):
        write(data, file)
