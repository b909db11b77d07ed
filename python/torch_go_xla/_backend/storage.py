"""Storages of the device: made, resized, saved and loaded.

Torch's own ways to make or resize a storage need an allocator written in C++, and crash without one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import torch

from .core import device_index, native, scalar_type
from .snapshot import Fetch, snapshot


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


def _as_bytes(storage: torch.UntypedStorage) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


# ---- saving and loading ----


class _Portable:
    """A ``torch.save`` that writes xla tensors as CPU tensors.

    Torch pickles the data first, which names every storage, and then asks for the bytes of one storage after the
    other. So the first such request is the moment at which all are synced and held; see `snapshot`.
    """

    def __init__(self, begin: Callable[[int], None]) -> None:
        self._storages: dict[int, torch.UntypedStorage] = {}
        self._fetch: Fetch | None = None
        self._begin = begin
        self.open = contextlib.ExitStack()

    def name(self, storage: torch.UntypedStorage) -> None:
        self._storages[storage.data_ptr()] = storage

    def bytes_of(self, storage: torch.UntypedStorage) -> torch.UntypedStorage:
        if self._fetch is None:
            self._begin(sum(s.nbytes() for s in self._storages.values()))
            self._fetch = self.open.enter_context(snapshot(self._storages.values(), in_place=True))
        return self._fetch(storage)


_portable: ContextVar[_Portable | None] = ContextVar("portable", default=None)


@contextlib.contextmanager
def saved_as_cpu(begin: Callable[[int], None] = lambda total: None) -> Iterator[None]:
    """Within the block, ``torch.save`` writes the xla tensors of its data as CPU tensors, all of one moment.

    No more than one storage at a time is in host memory. ``begin`` is called before the first with the bytes of all.
    """
    state = _Portable(begin)
    token = _portable.set(state)
    try:
        with state.open:
            yield
    finally:
        _portable.reset(token)


def is_saved_as_cpu() -> bool:
    """Tell whether this is within `saved_as_cpu`."""
    return _portable.get() is not None


def saved_bytes(storage: torch.UntypedStorage) -> torch.UntypedStorage | None:
    """Return an xla storage as it is saved within `saved_as_cpu`, to be read only; None outside of it."""
    saving = _portable.get()
    return None if saving is None else saving.bytes_of(storage)


def _location_tag(storage: Any) -> str | None:
    if storage.device.type != "xla":
        return None
    saving = _portable.get()
    if saving is None:
        return str(storage.device)
    saving.name(storage if isinstance(storage, torch.UntypedStorage) else storage._untyped_storage)
    return "cpu"


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


def register() -> None:
    """Have torch save storages of the device and load them."""
    # Below 10, the priority of the CPU's entry.
    torch.serialization.register_package(5, _location_tag, _restore)
