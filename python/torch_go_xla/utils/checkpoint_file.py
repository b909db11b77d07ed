"""Files of tensors: written in the order that keeps aliases right, and whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from typing import IO, Any

import torch
from torch.utils._pytree import tree_map_only

from .. import _XLAC
from .._backend import transfer
from .._backend.core import is_xla
from .._core import core as _native


class _HostCopies:
    """CPU twins of xla tensors; tensors that share a storage share it in their twins."""

    def __init__(self) -> None:
        self._storages: dict[int, torch.UntypedStorage] = {}
        self._twins: dict[int, torch.Tensor] = {}
        self._keep: list[torch.Tensor] = []

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        twin = self._twins.get(id(tensor))
        if twin is None:
            twin = self._make(tensor)
            self._twins[id(tensor)] = twin
            self._keep.append(tensor)  # an id is only its object's while that lives
        return twin

    def _make(self, tensor: torch.Tensor) -> torch.Tensor:
        plain = _XLAC._plain(tensor)
        if not is_xla(plain):
            return tensor
        if plain.is_conj() or plain.is_neg():
            twin = transfer.to_host(plain)
        else:
            handle = _native.fast.handle(plain)
            storage = self._storages.get(handle)
            if storage is None:
                storage = _fetch(plain.untyped_storage(), handle)
                self._storages[handle] = storage
            twin = torch.empty(0, dtype=plain.dtype).set_(storage, plain.storage_offset(), plain.size(), plain.stride())
        twin.requires_grad_(tensor.requires_grad)
        return torch.nn.Parameter(twin, tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) else twin


def _fetch(storage: torch.UntypedStorage, handle: int) -> torch.UntypedStorage:
    host = torch.empty(storage.nbytes(), dtype=torch.uint8)
    _native.fetch(handle, host.data_ptr(), storage.nbytes())
    return host.untyped_storage()


def _settle(tensors: list[torch.Tensor]) -> None:
    """Bring functional tensors up to date, then sync, then wait: every alias has its final value now."""
    _XLAC._functionalize_sync(tensors)
    devices = {t.device.index for t in map(_XLAC._plain, tensors) if is_xla(t)}
    for d in devices:
        _native.sync(d)
    for d in devices:
        _native.wait(d)


def to_cpu(data: Any) -> Any:
    """Return nested data with its xla tensors copied to the CPU, all of one moment and with their aliases."""
    tensors = [x for x in torch.utils._pytree.tree_leaves(data) if isinstance(x, torch.Tensor)]
    _settle(tensors)
    return tree_map_only(torch.Tensor, _HostCopies(), data)


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Give a file that takes the place of ``path`` when the block ends well, and vanishes if it does not.

    OSError says what failed; an old file is as it was until the new one is whole and on the disk.
    """
    path = os.path.abspath(os.fspath(path))
    folder = os.path.dirname(path)
    fd, beside = tempfile.mkstemp(prefix=f".{os.path.basename(path)}.", suffix=".part", dir=folder)
    try:
        with os.fdopen(fd, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileNotFoundError):
            os.chmod(beside, os.stat(path).st_mode & 0o7777)
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside)
        raise
    directory = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def save(data: Any, file_or_path: str | os.PathLike[str] | IO[bytes], write: bool = True) -> None:
    """Write data with its xla tensors on the CPU; with ``write`` false, only take part in the sync."""
    host = to_cpu(data)
    if not write:
        return
    if isinstance(file_or_path, str | os.PathLike):
        with replacing(file_or_path) as file:
            torch.save(host, file)
    else:
        torch.save(host, file_or_path)
