"""Replaces torch's ways to and from DLPack by those of `_backend.dlpack`, for xla tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .._backend.core import is_xla
from .._backend.dlpack import CPU, borrowed, export

Function = Callable[..., Any]


def functions(
    dlpack: Function, device: Function, capsule: Function, _capsule: Function, given: Function, _given: Function
) -> tuple[Function, ...]:
    """Return ``__dlpack__``, ``__dlpack_device__``, ``to_dlpack`` and ``from_dlpack``, the last two for two places."""
    ours, theirs = (
        (_dlpack(dlpack), _dlpack_device(device), _to(capsule), _from(given)),
        (dlpack, device, capsule, given),
    )
    for function, original in zip(ours, theirs, strict=True):
        function.__doc__ = original.__doc__
    method, device_method, to, back = ours
    return method, device_method, to, to, back, back


def _dlpack(dlpack: Function) -> Function:
    def __dlpack__(
        self: torch.Tensor,
        *,
        stream: Any = -1,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[Any, int] | None = None,
        copy: bool | None = None,
        **options: Any,
    ) -> Any:
        if is_xla(self):
            if stream is not None and type(stream) is not int:
                raise TypeError("stream must be ``int`` or ``none``")
            return export(self, max_version, dl_device, copy)
        return dlpack(self, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy, **options)

    return __dlpack__


def _dlpack_device(device: Function) -> Function:
    def __dlpack_device__(self: torch.Tensor) -> tuple[Any, int]:
        return CPU if is_xla(self) else device(self)

    return __dlpack_device__


def _to(capsule: Function) -> Function:
    def to_dlpack(tensor: torch.Tensor) -> Any:
        return export(tensor, None, None, None) if is_xla(tensor) else capsule(tensor)

    return to_dlpack


def _from(given: Function) -> Function:
    def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> torch.Tensor:
        if device is None or torch.device(device).type != "xla":
            return given(ext_tensor, device=device, copy=copy)  # type: ignore[no-any-return]
        # A CPU tensor that DLPack takes is taken by its storage, which is aligned where a slice may not be.
        x = ext_tensor
        whole = isinstance(x, torch.Tensor) and x.device.type == "cpu" and not (x.requires_grad or x.is_conj())
        return borrowed(x if whole and not x.is_neg() else given(x), device, copy)

    return from_dlpack
