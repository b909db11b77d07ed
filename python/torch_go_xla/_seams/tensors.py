"""Methods of tensors."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import torch

from .._backend.core import native
from .._backend.device import device_of
from .._backend.sparse_parts import is_sparse

Method = Callable[..., torch.Tensor]


def _xla(
    self: torch.Tensor,
    device: Any = None,
    non_blocking: bool = False,
    memory_format: torch.memory_format = torch.preserve_format,
) -> torch.Tensor:
    """Return the tensor on an xla device; the tensor itself if it is there."""
    return self.to(device_of(device), non_blocking=non_blocking, memory_format=memory_format)


def xla_names(is_xla: Any, xla: None) -> tuple[Any, Any]:
    """Return ``Tensor.is_xla`` and ``Tensor.xla``."""
    return property(lambda self: self.device.type == "xla"), _xla


def wrapped_number(original: None) -> Any:
    """Return the descriptor of ``Tensor._wrapped_number``."""
    return native().fast.wrapped_number()


def pin_memory(original: Method) -> Method:
    """Return ``Tensor.pin_memory``."""

    def pin_memory(self: torch.Tensor, device: Any = None) -> torch.Tensor:
        """Return the tensor: the runtime copies from any host memory, so none is page-locked for it."""
        return self if device is None or torch.device(device).type == "xla" else original(self, device)

    return pin_memory


def deepcopy(original: Method) -> Method:
    """Return ``Tensor.__deepcopy__``."""

    @functools.wraps(original)
    def __deepcopy__(self: torch.Tensor, memo: dict[Any, Any]) -> torch.Tensor:
        known = id(self) in memo
        copied = original(self, memo)
        plain = type(self) is torch.Tensor and not (is_sparse(self) or self.is_conj() or self.is_neg())
        if plain and self.device.type == "xla" and not known:
            storages = memo.setdefault("torch", {})
            key = self.untyped_storage()._cdata
            if key not in storages and native().fast.is_full(self):
                storages[key] = copied.untyped_storage()  # of the dtype and the sharding of the original
            storage = copy.deepcopy(self.untyped_storage(), memo)
            with torch.no_grad():
                copied.set_(storage, self.storage_offset(), self.size(), self.stride())
        return copied

    return __deepcopy__
