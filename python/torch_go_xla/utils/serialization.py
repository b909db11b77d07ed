"""Large states as a folder: torch_xla's ``torch_xla.utils.serialization``, usually imported as ``xser``.

``save(data, "model.pt")`` writes an index, ``model.pt``, which has references in place of the xla tensors. Below
``model.pt.tensors`` it writes a file for each of their storages, which ``torch.load`` reads too. So `load` needs host
memory for one storage at a time.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

from .._backend.core import is_xla
from .._backend.snapshot import snapshot, unwrapped
from .._backend.sparse_parts import is_sparse
from . import tensor_file, whole_file

__all__ = ["TensorReference", "load", "save"]


@dataclass(frozen=True)
class TensorReference:
    """What stands for a tensor in the index: the number of its storage's file, and which view of that it is.

    Example:
        >>> import torch
        >>> from torch_go_xla.utils.serialization import TensorReference
        >>> where = {"size": (2, 3), "stride": (3, 1), "offset": 0}
        >>> TensorReference(0, torch.float32, **where, requires_grad=False, is_parameter=False).size
        (2, 3)
    """

    tid: int
    dtype: torch.dtype
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    requires_grad: bool
    is_parameter: bool


def save(data: Any, path: str | os.PathLike[str], master_only: bool = True, global_master: bool = False) -> None:
    """Save nested data, of one moment, for `load`.

    Tensors that share a storage share it again when they are loaded. Everything except xla tensors goes into the index
    as it is. The files are on the disk before the index is replaced. So at every moment either the old or the new data
    load. The next save removes the files of a killed one. The files have the mode of an old index.

    Args:
        data: nested dicts, lists and tuples.
        path: of the index; the folder beside it has its name and ``.tensors``.
        master_only: only the first process writes.
        global_master: with ``master_only``, the first of all processes rather than of each machine.

    Raises:
        OSError: a file cannot be written. The old data stay.

    Example:
        >>> import os, tempfile, torch, torch_go_xla.utils.serialization as xser
        >>> path = os.path.join(tempfile.mkdtemp(), "model.pt")
        >>> xser.save({"w": torch.ones(2, device="xla"), "epoch": 3}, path)
        >>> sorted(os.listdir(os.path.dirname(path)))
        ['model.pt', 'model.pt.tensors']
    """
    from ..core import xla_model

    if master_only and not xla_model.is_master_ordinal(local=not global_master):
        xla_model.mark_step(wait=True)  # as in the process that writes
        return
    path = os.path.realpath(os.fspath(path))
    root = f"{path}.tensors"
    with _new_generation(root, path) as generation:
        index = _write(data, os.path.join(root, generation), path)
        tensor_file.save({"generation": generation, "data": index}, path)
        _remove_generations(root, path)


def load(path: str | os.PathLike[str], map_location: Any = None) -> Any:
    """Load what `save` has written.

    One storage after the other goes by way of the host. Files are not trusted: nothing in them can run code.

    Args:
        path: of the index.
        map_location: where the tensors go, as for ``torch.load``; by default to the CPU.

    Returns:
        The data.

    Raises:
        pickle.UnpicklingError: a file wants code to be run.
        ValueError: the files are not what `save` writes.
        FileNotFoundError: the index, or a file that it names, is missing.

    Example:
        >>> import os, tempfile, torch, torch_go_xla.utils.serialization as xser
        >>> path = os.path.join(tempfile.mkdtemp(), "model.pt")
        >>> xser.save({"w": torch.ones(2, device="xla"), "epoch": 3}, path)
        >>> xser.load(path)
        {'w': tensor([1., 1.]), 'epoch': 3}
    """
    path = os.path.realpath(os.fspath(path))
    missing = None
    while True:
        with torch.serialization.safe_globals([TensorReference]):
            index = torch.load(path, map_location=map_location, weights_only=True)
        generation = index.get("generation") if isinstance(index, dict) else None
        if not isinstance(generation, str) or not _GENERATION.fullmatch(generation):
            raise ValueError(f"{path} is not an index that torch_go_xla.utils.serialization.save has written")
        folder = os.path.join(f"{path}.tensors", generation)
        try:
            with whole_file.open_folder(folder) as fd:
                whole_file.lock(fd, shared=True)  # a save that ends meanwhile does not remove it
                return _read(index["data"], folder, map_location)
        except FileNotFoundError:
            if generation == missing:
                raise
            missing = generation  # unless there is a new index, which was saved since


# ---- the tensors ----


def _write(data: Any, folder: str, path: str) -> Any:
    """Write the storages of xla tensors to files and return the data with references in their stead."""
    leaves, spec = tree_flatten(data)
    tensors = {i: unwrapped(t).resolve_conj().resolve_neg() for i, t in enumerate(leaves) if _is_saved(t)}
    first: dict[int, torch.Tensor] = {}
    for t in tensors.values():
        first.setdefault(t.untyped_storage().data_ptr(), t)
    numbers = {handle: tid for tid, handle in enumerate(first)}
    progress = tensor_file.Progress(f"saving {os.path.basename(path)}")
    like = whole_file.attributes(path)
    progress.begin(sum(t.untyped_storage().nbytes() for t in first.values()))
    with contextlib.closing(progress), snapshot([t.untyped_storage() for t in first.values()], in_place=True) as fetch:
        files = [os.path.join(folder, _name(tid)) for tid in range(len(first))]
        for file, t in zip(files, first.values(), strict=True):
            storage = t.untyped_storage()
            dtype = t.dtype if storage.nbytes() % t.itemsize == 0 else torch.uint8
            with whole_file.new(file, progress.wrote, like) as sink:
                tensor_file.write(torch.empty(0, dtype=dtype).set_(fetch(storage)), sink)
    for name in (*files, folder, os.path.dirname(folder), os.path.dirname(path)):
        whole_file.flush(name)
    for i, t in tensors.items():
        tid, given = numbers[t.untyped_storage().data_ptr()], leaves[i]
        where = (t.dtype, tuple(t.size()), t.stride(), int(t.storage_offset()))
        leaves[i] = TensorReference(tid, *where, given.requires_grad, isinstance(given, torch.nn.Parameter))
    return tree_unflatten(leaves, spec)


def _is_saved(leaf: Any) -> bool:
    """Tell whether a leaf has files of its own; sparse tensors go into the index."""
    return isinstance(leaf, torch.Tensor) and is_xla(leaf) and not is_sparse(leaf)


def _read(data: Any, folder: str, map_location: Any) -> Any:
    """Return the data of an index with the tensors that its references stand for."""
    files: dict[int, torch.Tensor] = {}

    def tensor(ref: TensorReference) -> torch.Tensor:
        if type(ref.tid) is not int:
            raise ValueError(f"{ref.tid!r} is not the number of a file")
        if ref.tid not in files:
            files[ref.tid] = torch.load(os.path.join(folder, _name(ref.tid)), map_location, weights_only=True)
        whole = files[ref.tid]
        t = torch.empty(0, dtype=ref.dtype, device=whole.device)
        t.set_(whole.untyped_storage(), ref.offset, ref.size, ref.stride)
        return torch.nn.Parameter(t, ref.requires_grad) if ref.is_parameter else t.requires_grad_(ref.requires_grad)

    return tree_map_only(TensorReference, tensor, data)


def _name(tid: int) -> str:
    return f"tensor_{tid}.pt"


# ---- the folders ----

# Every save has a folder of its own, the generation, which it holds a lock on until it has ended; so does every load.
# The index decides whether a folder is in use. A process that has the lock, and then finds that the index names
# another folder, may remove this one. Only the save that made it could have named it, and that has ended.

_GENERATION = re.compile(r"[0-9a-f]{16}")
# In the pickle of an index, whose first key it is. Between the two strings are opcodes, the length of the second last.
_NAMED = re.compile(rb"generation.{1,8}\x10(?:\0{3})?([0-9a-f]{16})", re.DOTALL)


def _named(path: str) -> str | None:
    """Return the generation that an index names, None if there is none or it cannot be told; nothing is unpickled."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            found = _NAMED.search(text)
            return found[1].decode() if found else None
    except (OSError, ValueError):  # ValueError: it is empty
        return None


@contextlib.contextmanager
def _new_generation(root: str, path: str) -> Iterator[str]:
    """Make a locked folder and give its name; it goes if the block fails before the index names it."""
    os.makedirs(root, exist_ok=True)
    like = whole_file.attributes(root)
    with whole_file.new_folder(root, lambda: secrets.token_hex(8)) as (folder, fd):
        name = os.path.basename(folder)
        try:
            if like is not None:
                like.give_rights(fd)
            yield name
        except BaseException:
            if _named(path) != name:
                shutil.rmtree(folder, ignore_errors=True)
            raise


def _remove_generations(root: str, path: str) -> None:
    """Remove the folders that are not in use, as far as that is possible: the data are saved already."""
    with contextlib.suppress(OSError):
        for name in filter(_GENERATION.fullmatch, os.listdir(root)):
            folder = os.path.join(root, name)
            with contextlib.suppress(OSError), whole_file.open_folder(folder) as fd:
                if whole_file.lock(fd) is not False and _named(path) not in (None, name):
                    shutil.rmtree(folder, ignore_errors=True)
