"""safetensors files of xla tensors, written without a copy of the state on the host.

To read one, the library suffices: ``safetensors.torch.load_file(path, device="xla")`` maps the file and sends it to
the device tensor by tensor. Its ``save_file`` takes xla tensors too, but first copies all of them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import torch

from .._backend.core import is_xla
from .._backend.snapshot import settled, snapshot
from .whole_file import replacing_by_name

if TYPE_CHECKING:
    from collections.abc import Mapping


def save_file(
    tensors: Mapping[str, torch.Tensor], filename: str | os.PathLike[str], metadata: Mapping[str, str] | None = None
) -> None:
    """Save a dictionary of tensors, as ``safetensors.torch.save_file`` does, whole and of one moment as `xm.save`.

    The library reads the tensors where they are, if the host can: on the CPU device nothing is copied. Elsewhere all
    of them are fetched, as it wants all at once. Its errors are raised as they are; ImportError without it.
    """
    from safetensors.torch import save_file

    plain = {name: settled(t).resolve_conj().resolve_neg() if is_xla(t) else t for name, t in tensors.items()}
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage() for t in plain.values() if is_xla(t)}
    with snapshot(storages.values(), in_place=True) as fetch, replacing_by_name(filename) as path:
        values = {address: fetch(storage) for address, storage in storages.items()}

        def on_host(t: torch.Tensor) -> torch.Tensor:
            if not is_xla(t):
                return t
            value = values[t.untyped_storage().data_ptr()]
            return torch.empty(0, dtype=t.dtype).set_(value, t.storage_offset(), t.size(), t.stride())

        save_file({name: on_host(t) for name, t in plain.items()}, path, None if metadata is None else dict(metadata))
