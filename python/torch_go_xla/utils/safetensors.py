"""safetensors files of xla tensors, written without a copy of the state on the host.

To read one, the library suffices: ``safetensors.torch.load_file(path, device="xla")`` maps the file and sends it to the
device tensor by tensor. Its ``save_file`` takes xla tensors too, but first copies all of them. It also renames its
temporary file over the old one without flushing it.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from .._backend.core import is_xla
from .._backend.snapshot import snapshot, unwrapped
from .tensor_file import Progress
from .whole_file import replacing

__all__ = ["save_file"]

# The format's names of types: https://github.com/huggingface/safetensors, safetensors/src/tensor.rs.
_TYPES = {
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.uint16: "U16",
    torch.int16: "I16",
    torch.uint32: "U32",
    torch.int32: "I32",
    torch.uint64: "U64",
    torch.int64: "I64",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float32: "F32",
    torch.float64: "F64",
    torch.complex64: "C64",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e4m3fnuz: "F8_E4M3FNUZ",
    torch.float8_e5m2: "F8_E5M2",
    torch.float8_e5m2fnuz: "F8_E5M2FNUZ",
    torch.float8_e8m0fnu: "F8_E8M0",
}


def save_file(
    tensors: Mapping[str, torch.Tensor], filename: str | os.PathLike[str], metadata: Mapping[str, str] | None = None
) -> None:
    """Save a dictionary of tensors, as ``safetensors.torch.save_file`` does, whole and of one moment as `xm.save`.

    Tensors are fetched one by one as they are written.

    Args:
        tensors: contiguous tensors by their names, which share no memory.
        filename: the path.
        metadata: texts by their names, which are stored too.

    Raises:
        ValueError: a value is not a tensor, not dense, not contiguous, or of a type that the format has no name for.
        RuntimeError: tensors share memory.
        TypeError: names or metadata are not strings.
        OSError: the file cannot be written. The old file stays.

    Example:
        >>> import os, tempfile, safetensors.torch, torch
        >>> from torch_go_xla.utils.safetensors import save_file
        >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
        >>> save_file({"w": torch.ones(2, device="xla")}, path, metadata={"format": "pt"})
        >>> safetensors.torch.load_file(path)
        {'w': tensor([1., 1.])}
    """
    _check_strings(tensors, "names of tensors")
    _check_strings([*(metadata or {}), *(metadata or {}).values()], "metadata")
    plain = {name: _plain(name, t) for name, t in tensors.items()}
    _check_apart(plain)
    # Larger elements first, so that each tensor is aligned, as the library does.
    names = sorted(plain, key=lambda name: (-plain[name].itemsize, name))
    storages = {s.data_ptr(): s for s in (t.untyped_storage() for t in plain.values() if is_xla(t))}
    progress = Progress(f"saving {os.path.basename(filename)}")
    progress.begin(sum(t.nbytes for t in plain.values()))
    with (
        contextlib.closing(progress),
        snapshot(storages.values(), in_place=True) as fetch,
        replacing(filename, progress.wrote) as file,
    ):
        file.write(memoryview(_header([(name, plain[name]) for name in names], metadata)))
        for name in names:
            t = plain[name]
            if is_xla(t) and t.nbytes:
                whole = fetch(t.untyped_storage())
                t = torch.empty(0, dtype=t.dtype).set_(whole, t.storage_offset(), t.size(), t.stride())
            if t.nbytes:
                file.write(t.cpu().reshape(-1).view(torch.uint8).numpy().data)


def _header(tensors: Iterable[tuple[str, torch.Tensor]], metadata: Mapping[str, str] | None) -> bytes:
    """Return what stands before the tensors: its own size in 8 bytes, and a JSON text filled up to a multiple of 8."""
    entries: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    end = 0
    for name, t in tensors:
        start, end = end, end + t.nbytes
        entries[name] = {"dtype": _TYPES[t.dtype], "shape": list(t.shape), "data_offsets": [start, end]}
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _check_strings(values: Iterable[Any], what: str) -> None:
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"safetensors.save_file: {what} must be strings, not {type(value).__name__}")


def _plain(name: str, t: Any) -> torch.Tensor:
    """Return a tensor as it is to be read, if the format can hold it."""
    if name == "__metadata__":
        raise ValueError("safetensors.save_file: __metadata__ cannot be the name of a tensor")
    if not isinstance(t, torch.Tensor):
        raise ValueError(f"safetensors.save_file: {name!r} must be a tensor, not {type(t).__name__}")
    if t.layout != torch.strided:
        raise ValueError(f"safetensors.save_file: {name!r} is sparse; use its to_dense()")
    if t.dtype not in _TYPES:
        raise ValueError(f"safetensors.save_file: the format has no type for {name!r}, which is {t.dtype}")
    plain = unwrapped(t).resolve_conj().resolve_neg()
    if not plain.is_contiguous():
        raise ValueError(f"safetensors.save_file: {name!r} is not contiguous; use its contiguous()")
    return plain


def _check_apart(tensors: Mapping[str, torch.Tensor]) -> None:
    """Refuse tensors that overlap in memory: they would be stored twice, and loaded as two."""
    spans = sorted(
        (str(t.device), t.untyped_storage().data_ptr(), t.storage_offset() * t.itemsize, t.nbytes, name)
        for name, t in tensors.items()
        if t.nbytes
    )
    for (*place, start, size, name), (*next_place, next_start, _, next_name) in itertools.pairwise(spans):
        if place == next_place and next_start < start + size:
            raise RuntimeError(
                f"safetensors.save_file: {name!r} and {next_name!r} share memory, which the format cannot express; "
                "save one of them, or a clone"
            )
