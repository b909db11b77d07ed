"""Devices by torch_xla's names; part of `xla_model`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .. import _XLAC, runtime
from .. import device as _device
from .._backend.core import device_index, is_xla
from .._core import core as _native


def xla_device(n: int | None = None, devkind: str | None = None) -> torch.device:
    """Return the xla device of an index.

    Args:
        n: the index, from 0 to ``torch_go_xla.device_count() - 1``; by default that of the current device.
        devkind: the kind of hardware, such as ``"CPU"``. It must be that of the process's devices.

    Raises:
        RuntimeError: this process does not have the device, or its devices are of another kind.

    Example:
        >>> import torch_go_xla.core.xla_model as xm
        >>> xm.xla_device()
        device(type='xla', index=0)
    """
    if devkind is not None and devkind.upper() != runtime.device_type():
        raise RuntimeError(f"no {devkind} device: the devices of this process are {runtime.device_type()}")
    return _device(n)


def get_xla_supported_devices(devkind: str | None = None, max_devices: int | None = None) -> list[str]:
    """Return the names of the devices, in the order of their indices.

    Args:
        devkind: only devices of this kind of hardware, such as ``"CPU"``. The list is empty for another kind.
        max_devices: at most so many.

    Example:
        >>> import torch_go_xla.core.xla_model as xm
        >>> xm.get_xla_supported_devices()
        ['xla:0']
        >>> xm.get_xla_supported_devices("TPU")
        []
    """
    if devkind is not None and devkind.upper() != runtime.device_type():
        return []
    return _XLAC._xla_get_devices()[:max_devices]


def xla_device_hw(device: Any) -> str:
    """Return the kind of hardware of a device: CPU, CUDA, TPU, …

    Args:
        device: a device, its name, or its index; None is the current one.

    Raises:
        ValueError: it is not an xla device.

    Example:
        >>> import torch_go_xla.core.xla_model as xm
        >>> xm.xla_device_hw("xla:0")
        'CPU'
    """
    return str(_native.devices()[device_index(device)]["platform"]).upper()


def xla_real_devices(devices: Sequence[Any] | None = None) -> list[str]:
    """Return the hardware's names of devices.

    Args:
        devices: devices, their names or indices; all devices of this process by default.

    Example:
        >>> import torch_go_xla.core.xla_model as xm
        >>> xm.xla_real_devices(["xla:0"])
        ['CPU:0']
    """
    known = _native.devices()
    wanted = range(len(known)) if devices is None else [device_index(d) for d in devices]
    return [f"{known[i]['platform'].upper()}:{i}" for i in wanted]


def xla_device_kind(device: Any = None) -> str:
    """Return what the plugin calls the kind of a device, such as ``cpu`` or ``NVIDIA H100``.

    Args:
        device: a device, its name or index; the current one by default.

    Example:
        >>> import torch_go_xla.core.xla_model as xm
        >>> xm.xla_device_kind()
        'cpu'
    """
    return str(_native.devices()[device_index(device)]["kind"])


def xla_replication_devices(local_devices: Sequence[Any] | None = None) -> list[str]:
    """Return the hardware's names of the devices that hold replicas of a program.

    Args:
        local_devices: devices, their names or indices; all devices of this process by default.

    Example:
        >>> import torch_go_xla.core.xla_model as xm
        >>> xm.xla_replication_devices()
        ['CPU:0']
    """
    return xla_real_devices(local_devices)


def set_replication(device: Any, devices: Sequence[Any]) -> None:
    """Do nothing: the processes of a job find each other by themselves. Programs written for torch_xla call it.

    Args:
        device: ignored.
        devices: ignored.

    Example:
        >>> import torch_go_xla.core.xla_model as xm
        >>> xm.set_replication(xm.xla_device(), [xm.xla_device()])
    """


def is_xla_tensor(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor is on an xla device.

    Args:
        tensor: any tensor.

    Example:
        >>> import torch, torch_go_xla.core.xla_model as xm
        >>> xm.is_xla_tensor(torch.ones(2, device="xla")), xm.is_xla_tensor(torch.ones(2))
        (True, False)
    """
    return is_xla(tensor)
