"""Tensors of the device between processes: a queue or a pipe of torch.multiprocessing carries them by a copy.

The sender copies the whole storage to shared memory of the CPU, the receiver copies it to its device of the same index.
Tensors that share a storage share one at the receiver too, if one message has them. Later writes are seen by neither
side. How the storage is sharded does not travel. The receiver needs a device: it must not be a forked process::

    context = torch.multiprocessing.get_context("spawn")
    queue = context.Queue()
    context.Process(target=consume, args=(queue,)).start()
    queue.put(model.state_dict())  # copied when the queue's thread sends it
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from multiprocessing.context import get_spawning_popen
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing.reductions import reduce_tensor

from .core import is_xla, native
from .errors import ForkedProcessError
from .sparse_parts import is_sparse, parts, rebuilding


class _Storage:
    """A storage in a message. Pickle writes it once, as it is one object for all tensors over the storage."""

    def __init__(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        whole = storage.nbytes() % tensor.element_size() == 0
        base = torch.empty(0, dtype=tensor.dtype if whole else torch.uint8, device=tensor.device)
        self._base = base.set_(storage)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        host = self._base.cpu()
        if (starting := get_spawning_popen()) is not None:
            # An argument of a process that is being spawned, which inherits the file of the shared memory: it has to be
            # open until then. Queues and pipes have a descriptor of their own.
            vars(starting).setdefault("_xla_copies", []).append(host)
        return _receive, (host, self._base.device.index)


# By handle, while messages with them are being written. Threads that send a storage at once may copy it twice.
_sent: weakref.WeakValueDictionary[int, _Storage] = weakref.WeakValueDictionary()


def _receive(host: torch.Tensor, index: int) -> torch.Tensor:
    """Return a tensor over the whole of a new storage."""
    if native().fast.forked():
        raise ForkedProcessError(
            "an xla tensor was sent to a forked process, which cannot use the device. Start the process by "
            '"spawn" (torch.multiprocessing.get_context("spawn")), or send tensor.cpu()'
        )
    return host.to(torch.device("xla", index))


def _rebuild(
    kind: type[torch.Tensor],
    base: torch.Tensor,
    dtype: torch.dtype,
    geometry: tuple[int, tuple[int, ...], tuple[int, ...]],
    lazy: tuple[bool, bool],
    requires_grad: bool,
) -> torch.Tensor:
    offset, size, stride = geometry
    x = torch.empty(0, dtype=dtype, device=base.device).set_(base.untyped_storage(), offset, size, stride)
    conjugate, negative = lazy
    x = x.conj() if conjugate else x
    x = torch._neg_view(x) if negative else x
    if kind is torch.nn.Parameter:
        return torch.nn.Parameter(x, requires_grad)
    return x.requires_grad_(requires_grad)


def _reduce(x: torch.Tensor) -> Any:
    """Reduce a tensor as torch does, one of the device by a copy."""
    if not is_xla(x) or (x.requires_grad and not x.is_leaf):
        return reduce_tensor(x)  # type: ignore[no-untyped-call]
    if is_sparse(x):
        return rebuilding(x, parts(x))
    torch.utils.hooks.warn_if_has_hooks(x)
    data = x.detach()
    plain = torch._neg_view(data) if data.is_neg() else data
    plain = plain.conj() if plain.is_conj() else plain
    handle = native().fast.handle(plain)
    storage = _sent.get(handle)
    if storage is None:
        storage = _sent[handle] = _Storage(plain)
    geometry = (int(plain.storage_offset()), tuple(plain.size()), plain.stride())
    lazy = (data.is_conj(), data.is_neg())
    return _rebuild, (type(x), storage, plain.dtype, geometry, lazy, x.requires_grad)


def install() -> None:
    """Let torch.multiprocessing carry tensors of the device."""
    for kind in (torch.Tensor, torch.nn.Parameter):
        ForkingPickler.register(kind, _reduce)
