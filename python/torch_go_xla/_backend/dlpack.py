"""DLPack: values of xla tensors for other libraries, and theirs for xla tensors, in place where that can be."""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch.utils.dlpack import DLDeviceType

from .core import device_index, native, scalar_type
from .device import torch_version
from .snapshot import unwrapped
from .transfer import move, new_tensor

CPU = (DLDeviceType.kDLCPU, 0)


def shared(tensor: torch.Tensor) -> torch.Tensor:
    """Return a CPU tensor over the very memory that holds an xla tensor's value of this moment.

    The memory lives as long as a tensor over it, and no program writes to it meanwhile. A later write to the xla
    tensor gives that another buffer. No one else may write to it either. BufferError if the host cannot read it.
    """
    plain = unwrapped(tensor)
    storage, core = plain.untyped_storage(), native()
    held = core.snapshot([storage.data_ptr()])
    try:
        core.wait(plain.device.index)
        address = core.snapshot_address(held, 0)
        if not address and storage.nbytes():
            raise BufferError(f"the host cannot read the memory of {tensor.device} in place; export tensor.cpu()")
    except BaseException:
        core.drop_snapshot(held)
        raise
    memory = (ctypes.c_char * storage.nbytes()).from_address(address)
    core.when_gone(memory, core.drop_snapshot, held)
    host = torch.frombuffer(memory, dtype=torch.uint8) if address else torch.empty(0, dtype=torch.uint8)
    flat = torch.empty(0, dtype=plain.dtype)
    return flat.set_(host.untyped_storage(), plain.storage_offset(), plain.size(), plain.stride())


def export(tensor: torch.Tensor, max_version: Any, dl_device: Any, copy: bool | None) -> Any:
    """Return a capsule as ``Tensor.__dlpack__`` does; it is read-only if the consumer's version can say so."""
    if tensor.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if tensor.is_conj() or tensor.is_neg():
        raise BufferError("Can't export tensors with the conjugate or the negative bit set")
    if dl_device is not None and tuple(dl_device) != CPU:
        raise BufferError(f"an xla tensor is exported to the CPU, not to DLPack device {tuple(dl_device)}")
    host = tensor.cpu() if copy else shared(tensor)
    if copy or max_version is None or max_version[0] < 1:
        return host.__dlpack__(max_version=max_version)
    if torch_version() < (2, 14):  # it cannot export memory as read-only, which an unversioned capsule is taken for
        return host.__dlpack__()
    return host.__dlpack__(max_version=max_version, read_only=True)


def borrowed(host: torch.Tensor, device: Any, copy: bool | None = None) -> torch.Tensor:
    """Return an xla tensor with the value of a CPU tensor, over the very memory of that where the device can use it.

    Other code must not write to that memory while the tensor, or a program that reads it, lives. The device
    never does: an in-place operation gives the xla tensor a new value, in memory of the device. With ``copy`` the
    memory is free at once; BufferError if it is False and the device has to copy.
    """
    if copy:
        return move(host, device)
    core, index, number = native(), device_index(device), scalar_type(host.dtype)
    spread = not (host.is_contiguous() and host.untyped_storage().nbytes() == host.nbytes)
    dense = torch.empty(0, dtype=host.dtype).set_(host.untyped_storage()) if spread else host
    to = new_tensor(dense.shape, dense.dtype, index)
    core.borrow(core.fast.handle(to), dense, dense.data_ptr(), number, tuple(dense.shape))
    if copy is False and dense.numel() and shared(to).data_ptr() != dense.data_ptr():
        raise BufferError(f"{to.device} cannot use the memory at {dense.data_ptr():#x} where it is; allow a copy")
    return to.as_strided(host.size(), host.stride(), host.storage_offset()) if spread else to
