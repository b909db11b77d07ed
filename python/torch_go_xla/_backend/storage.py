"""Storages of the device: made, resized, saved and loaded.

Torch's own ways to make or resize a storage need an allocator written in C++, and crash without one.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import torch

from .core import device_index, native, scalar_type

_base: Any = torch._C.StorageBase


def new_storage(nbytes: int, device: Any) -> torch.UntypedStorage:
    """Return a storage of that many bytes, not yet written."""
    core, index = native(), device_index(device)
    tensor = core.fast.new_tensor(core.fast.alloc(nbytes, index), scalar_type(torch.uint8), index, (nbytes,))
    return tensor.untyped_storage()  # type: ignore[no-any-return]


def resize_storage(storage: torch.UntypedStorage, nbytes: int) -> None:
    """Give a storage another size. What it holds stays, as far as there is room; so do all its tensors."""
    old = storage.nbytes()
    if old == nbytes:
        return
    core = native()
    core.fast.set_storage_nbytes(storage._cdata, old, nbytes)
    try:
        core.fast.resize(storage.data_ptr(), nbytes)
    except BaseException:
        core.fast.set_storage_nbytes(storage._cdata, nbytes, old)
        raise


def find_storage_size() -> None:
    """Find out where this torch keeps the size of a storage; without that, storages keep theirs."""
    a, b = (torch.empty(n, dtype=torch.uint8).untyped_storage() for n in (100003, 200017))
    native().fast.probe_storage(a._cdata, a.nbytes(), b._cdata, b.nbytes())


def _as_bytes(storage: torch.UntypedStorage) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def _is_xla(device: Any) -> bool:
    return device is not None and not isinstance(device, int) and torch.device(device).type == "xla"


def _patch_untyped_storage() -> None:
    storage: Any = torch.UntypedStorage
    resize = storage.resize_

    def __new__(cls: type, *args: Any, device: Any = None, **kwargs: Any) -> Any:
        if device is None:
            return _base.__new__(cls, *args, **kwargs)
        if not _is_xla(device):
            return _base.__new__(cls, *args, device=device, **kwargs)
        if not args or isinstance(args[0], int):
            return new_storage(args[0] if args else 0, device)
        values = torch.tensor(list(args[0]), dtype=torch.uint8)
        return values.to(device).untyped_storage()

    def resize_(self: torch.UntypedStorage, size: int) -> torch.UntypedStorage:
        """Give the storage another size in bytes."""
        if self.device.type != "xla":
            return resize(self, size)  # type: ignore[no-any-return]
        resize_storage(self, size)
        return self

    storage.__new__ = __new__
    storage.resize_ = resize_


# ---- saving and loading ----


def _location_tag(storage: Any) -> str | None:
    return str(storage.device) if storage.device.type == "xla" else None


def _restore(storage: Any, location: str) -> torch.UntypedStorage | None:
    """Bring a storage read from a file to the device that its tag, or map_location, names."""
    if location.partition(":")[0] != "xla":
        return None
    index = device_index(location)
    count = native().device_count()
    if index >= count:
        raise RuntimeError(
            f"the file holds tensors of xla:{index}, but this process has {count} xla device(s); "
            'load it with map_location="xla" or map_location="cpu"'
        )
    source = storage if isinstance(storage, torch.UntypedStorage) else storage._untyped_storage
    if source.device.type == "xla" and source.device.index == index:
        return source
    return _as_bytes(source).to(torch.device("xla", index)).untyped_storage()


def _reduce_by_storage(self: torch.Tensor) -> tuple[Any, ...]:
    """Pickle a tensor as torch does for the CPU: by its storage, so that aliases in a file stay aliases."""
    library: Any = torch
    library.utils.hooks.warn_if_has_hooks(self)
    storage = library.storage.TypedStorage(wrap_storage=self.untyped_storage(), dtype=self.dtype, _internal=True)
    args: tuple[Any, ...] = (
        storage,
        self.storage_offset(),
        tuple(self.size()),
        self.stride(),
        self.requires_grad,
        OrderedDict(),
    )
    bits = library._utils.get_tensor_metadata(self)
    return library._utils._rebuild_tensor_v2, (*args, bits) if bits else args


def _patch_pickling() -> None:
    original = torch.Tensor._reduce_ex_internal

    def _reduce_ex_internal(self: torch.Tensor, proto: int) -> Any:
        if self.device.type != "xla" or torch.serialization._serialization_tls.skip_data:
            return original(self, proto)  # type: ignore[no-untyped-call]
        return _reduce_by_storage(self)

    torch.Tensor._reduce_ex_internal = _reduce_ex_internal  # type: ignore[method-assign]


def install() -> None:
    """Make storages of the device work as others do."""
    find_storage_size()
    _patch_untyped_storage()
    _patch_pickling()
    # Below 10, the priority of the CPU's entry.
    torch.serialization.register_package(5, _location_tag, _restore)
