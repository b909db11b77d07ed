"""Data between host and device, and between devices: the one place that hands addresses to the core."""

from __future__ import annotations

import ctypes
import math
import mmap
from typing import Any

import torch

from .core import device_index, is_xla, native, scalar_type

# A view is fetched by its whole storage if that is at most this much, or this many times the view.
_WHOLE_BYTES = 4096
_WHOLE_FACTOR = 2

# Host memory from this size on is asked for in huge pages.
_HUGE_BYTES = 4 << 20

_aten = torch.ops.aten
_libc = ctypes.CDLL(None)


def contiguous_strides(sizes: Any) -> tuple[int, ...]:
    """Return the strides of a dense row-major array."""
    strides = [1] * len(sizes)
    for i in range(len(sizes) - 2, -1, -1):
        strides[i] = strides[i + 1] * max(sizes[i + 1], 1)
    return tuple(strides)


def _spanned(sizes: Any, strides: Any) -> int:
    """Return the elements from the first to the last that a view reaches."""
    return 0 if 0 in sizes else 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))


def storage_bytes(elements: int, dtype: torch.dtype, sizes: Any, strides: Any = None) -> int:
    """Return the bytes of a storage; RuntimeError where torch's count of them would overflow."""
    if (nbytes := elements * dtype.itemsize) < 1 << 63:
        return nbytes
    of = f"sizes={list(sizes)}" if strides is None else f"sizes={list(sizes)} and strides={list(strides)}"
    raise RuntimeError(f"Storage size calculation overflowed with {of}")


def new_tensor(sizes: Any, dtype: torch.dtype, device: int, strides: tuple[int, ...] | None = None) -> torch.Tensor:
    """Return a tensor of the device, not yet written, in a storage of just its size."""
    core = native()
    number = scalar_type(dtype)
    elements = math.prod(sizes) if strides is None else _spanned(sizes, strides)
    handle = core.fast.alloc(storage_bytes(elements, dtype, sizes, strides), device)
    return core.fast.new_tensor(handle, number, device, tuple(sizes), strides)  # type: ignore[no-any-return]


def resolved(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor's value without lazy conjugation or negation."""
    if tensor.is_conj():
        tensor = _aten.conj_physical(torch._conj(tensor))
    if tensor.is_neg():
        tensor = _aten.neg(torch._neg_view(tensor))
    return tensor


# ---- device to host ----


def in_huge_pages(host: torch.Tensor) -> torch.Tensor:
    """Ask for huge pages behind a large CPU tensor that is about to be written, and return it.

    The first touch of a page costs more than copying to it. It is a hint: what was touched before stays as it is.
    """
    if host.nbytes >= _HUGE_BYTES:
        begin = -(-host.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
        end = (host.data_ptr() + host.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
        _libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), mmap.MADV_HUGEPAGE)
    return host


def to_host(source: torch.Tensor) -> torch.Tensor:
    """Return a CPU tensor with the value of an xla tensor."""
    core = native()
    source = resolved(source.detach())
    if not core.fast.is_full(source):
        storage = source.untyped_storage()
        size = source.numel() * source.element_size()
        if storage.nbytes() <= max(_WHOLE_BYTES, _WHOLE_FACTOR * size):
            host = in_huge_pages(torch.empty(storage.nbytes(), dtype=torch.uint8))
            core.fetch(core.fast.handle(source), host.data_ptr(), storage.nbytes())
            flat = torch.empty(0, dtype=source.dtype)
            return flat.set_(host.untyped_storage(), source.storage_offset(), source.size(), source.stride())
        source = source.clone(memory_format=torch.contiguous_format)
    host = in_huge_pages(torch.empty(source.size(), dtype=source.dtype))
    core.fetch(core.fast.handle(source), host.data_ptr(), host.numel() * host.element_size())
    return host


def read(source: torch.Tensor, to: torch.Tensor) -> None:
    """Copy an xla tensor to a CPU tensor, with torch's casts and broadcasts."""
    core = native()
    direct = (
        to.dtype == source.dtype
        and to.shape == source.shape
        and to.is_contiguous()
        and not (to.is_conj() or to.is_neg() or source.is_conj() or source.is_neg())
        and core.fast.is_full(source)
    )
    if direct:
        core.fetch(core.fast.handle(source), in_huge_pages(to).data_ptr(), to.numel() * to.element_size())
    else:
        to.copy_(to_host(source))


# ---- host to device ----


def _upload(source: torch.Tensor, to: torch.Tensor) -> None:
    core = native()
    core.upload(core.fast.handle(to), source.data_ptr(), scalar_type(source.dtype), tuple(source.shape))


def write(source: torch.Tensor, to: torch.Tensor) -> None:
    """Copy a CPU tensor to an xla tensor, with torch's casts and broadcasts."""
    source = source.detach().to(to.dtype).resolve_conj().resolve_neg()
    if source.shape == to.shape and native().fast.is_full(to) and not (to.is_conj() or to.is_neg()):
        _upload(source.contiguous(), to)
        return
    source = source.contiguous()
    staged = new_tensor(source.shape, source.dtype, to.device.index)
    _upload(source, staged)
    to.copy_(staged)


# ---- device to device ----


def across(source: torch.Tensor, to: torch.Tensor) -> None:
    """Copy an xla tensor to one on another device."""
    core = native()
    source = resolved(source.detach()).to(to.dtype)
    if not core.fast.is_full(source):
        source = source.clone(memory_format=torch.contiguous_format)
    plain = source.shape == to.shape and core.fast.is_full(to) and not (to.is_conj() or to.is_neg())
    staged = to if plain else new_tensor(source.shape, source.dtype, to.device.index)
    core.copy(core.fast.handle(staged), core.fast.handle(source))
    if staged is not to:
        to.copy_(staged)


# ---- any to any ----


def copy(source: torch.Tensor, to: torch.Tensor) -> torch.Tensor:
    """Copy between any two places, at least one of them an xla device. Returns to."""
    if is_xla(source) and is_xla(to):
        if source.device != to.device:
            across(source, to)
        else:
            _copy_here(source, to)
    elif is_xla(to):
        if source.device.type != "cpu":
            source = source.cpu()
        write(source, to)
    elif to.device.type == "cpu":
        read(source, to)
    else:
        to.copy_(to_host(source))
    return to


def _copy_here(source: torch.Tensor, to: torch.Tensor) -> None:
    """Copy on one device where a lazy bit is set on either side."""
    if to.is_conj():
        _aten.copy_(torch._conj(to), _aten.conj_physical(resolved(source)))
    elif to.is_neg():
        _aten.copy_(torch._neg_view(to), _aten.neg(resolved(source)))
    else:
        _aten.copy_(to, resolved(source))


def move(tensor: torch.Tensor, device: Any) -> torch.Tensor:
    """Return a copy of a CPU tensor on an xla device."""
    to = new_tensor(tensor.shape, tensor.dtype, device_index(device))
    write(tensor, to)
    return to
