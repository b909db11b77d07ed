"""Storages: made, resized, copied to the CPU while they are saved, pickled."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch

from .._backend.core import native
from .._backend.snapshot import unwrapped
from .._backend.sparse_parts import is_sparse, parts, rebuilding
from .._backend.storage import new_storage, resize_storage, saved_bytes

Method = Callable[..., Any]

_base: Any = torch._C.StorageBase


def _is_xla(device: Any) -> bool:
    return device is not None and not isinstance(device, int) and torch.device(device).type == "xla"


def methods(new: Method, resize: Method, cpu: Method) -> tuple[Method, Method, Method]:
    """Return ``UntypedStorage.__new__``, ``resize_`` and ``cpu``."""

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

    def to_cpu(self: torch.UntypedStorage) -> torch.UntypedStorage:
        """Return a copy of the storage on the CPU."""
        saved = saved_bytes(self) if self.device.type == "xla" else None
        return cpu(self) if saved is None else saved

    return __new__, resize_, to_cpu


def find_size() -> str:
    """Find out where this torch keeps the size of a storage."""
    a, b = (torch.empty(n, dtype=torch.uint8).untyped_storage() for n in (100003, 200017))
    if native().fast.probe_storage(a._cdata, a.nbytes(), b._cdata, b.nbytes()):
        return ""
    return f"torch {torch.__version__} does not keep the size of a storage in one word"


def _reduce_by_storage(self: torch.Tensor) -> tuple[Any, ...]:
    """Pickle a tensor as torch does for the CPU: by its storage, so that aliases in a file stay aliases."""
    library: Any = torch
    library.utils.hooks.warn_if_has_hooks(self)
    storage: Any = self.untyped_storage()
    rebuild: Any = library._utils._rebuild_tensor_v3
    last: tuple[Any, ...] = (self.dtype,)
    if self.dtype not in library.storage._new_dtypes():  # those have no typed storage
        rebuild, last = library._utils._rebuild_tensor_v2, ()
        storage = library.storage.TypedStorage(wrap_storage=storage, dtype=self.dtype, _internal=True)
    bits = library._utils.get_tensor_metadata(self)
    where = (self.storage_offset(), tuple(self.size()), self.stride())
    return rebuild, (storage, *where, self.requires_grad, OrderedDict(), *last, *((bits,) if bits else ()))


def reduce_ex(original: Method) -> Method:
    """Return ``Tensor._reduce_ex_internal``."""

    def _reduce_ex_internal(self: torch.Tensor, proto: int) -> Any:
        if self.device.type != "xla" or torch.serialization._serialization_tls.skip_data:
            return original(self, proto)
        if is_sparse(self):
            return rebuilding(self, parts(self))
        return _reduce_by_storage(unwrapped(self) if torch._is_functional_tensor(self) else self)

    return _reduce_ex_internal
