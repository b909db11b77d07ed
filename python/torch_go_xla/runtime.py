"""The devices and processes of the run: torch_xla's ``torch_xla.runtime``, usually imported as ``xr``."""

from __future__ import annotations

import os
from typing import Any

from . import _job
from ._backend import partitioning
from ._core import core as _native

__all__ = [
    "addressable_device_count",
    "addressable_runtime_device_count",
    "device_type",
    "get_master_ip",
    "get_num_cached_compilation_graph",
    "global_device_count",
    "global_ordinal",
    "global_runtime_device_attributes",
    "global_runtime_device_count",
    "host_index",
    "initialize_cache",
    "is_bf16_supported",
    "is_spmd",
    "local_device_count",
    "local_ordinal",
    "local_process_count",
    "process_count",
    "process_index",
    "runtime_device_attributes",
    "set_device_type",
    "use_spmd",
    "world_size",
]


def device_type() -> str:
    """Return the kind of the devices: CPU, CUDA, TPU, or a registered plugin's name."""
    return os.environ.get("PJRT_DEVICE", "CPU").upper()


def set_device_type(pjrt_device: str) -> None:
    """Choose the kind of device; RuntimeError once a device is open."""
    if _native.opened and pjrt_device.upper() != device_type():
        raise RuntimeError(f"the device is open: it is {device_type()} and cannot become {pjrt_device}")
    os.environ["PJRT_DEVICE"] = pjrt_device


def is_bf16_supported() -> bool:
    """Return True: every XLA backend has bfloat16."""
    return True


def use_spmd(auto: bool = False) -> None:
    """Make one device, ``xla:0``, of all devices of all processes, over which tensors and programs are sharded.

    Call it before there are tensors on other devices, which are a RuntimeError; those on ``xla:0`` stay, on every
    device. Every process runs the same program on the same values, of which its devices hold their shards. Calling it
    again does nothing. NotImplementedError for ``auto``.
    """
    if auto:
        raise NotImplementedError("automatic sharding is not supported: annotate tensors by hand")
    partitioning.use_spmd()


def is_spmd() -> bool:
    """Tell whether `use_spmd` was called."""
    return partitioning.is_spmd()


def global_runtime_device_count() -> int:
    """Return the number of devices of all processes."""
    return _native.partitions() or _native.device_count() * world_size()


def addressable_runtime_device_count() -> int:
    """Return the number of devices of this process."""
    return global_runtime_device_count() // world_size()


def global_device_count() -> int:
    """Return the number of xla devices of all processes; SPMD makes one of those of a process."""
    return _native.device_count() * world_size()


def local_device_count() -> int:
    """Return the number of xla devices of this machine; SPMD makes one of those of a process."""
    return _native.device_count() * local_process_count()


def addressable_device_count() -> int:
    """Return the number of xla devices of this process; SPMD makes one of them."""
    return _native.device_count()


def runtime_device_attributes(device: str) -> dict[str, Any]:
    """Return what the plugin says of a device."""
    from ._backend.core import device_index

    return dict(_native.devices()[device_index(device)]["attributes"] or {})


def global_runtime_device_attributes() -> list[dict[str, Any]]:
    """Return what the plugin says of every device, and its name, such as ``CPU:0``."""
    return [{**(d["attributes"] or {}), "name": f"{d['platform'].upper()}:{d['index']}"} for d in _native.devices()]


def world_size() -> int:
    """Return the number of processes of the run."""
    return _job.current().world_size


def global_ordinal() -> int:
    """Return the number of this process among all."""
    return _job.current().rank


def local_ordinal() -> int:
    """Return the number of this process on its machine."""
    return _job.current().local_rank


def process_count() -> int:
    """Return the number of processes of the run."""
    return world_size()


def local_process_count() -> int:
    """Return the number of processes of this machine."""
    return _job.current().local_world_size


def process_index() -> int:
    """Return the number of this process among all."""
    return global_ordinal()


def host_index() -> int:
    """Return the number of this machine among those of the job."""
    from . import plugins

    return plugins.find_plugin(device_type()).host_index()


def get_master_ip() -> str:
    """Return the address of the machine of the first process, MASTER_ADDR; RuntimeError if there is no job."""
    address = os.environ.get("MASTER_ADDR")
    if address is None:
        raise RuntimeError("get_master_ip: MASTER_ADDR is not set: start the job by torchrun or torch_go_xla.launch")
    return address


def initialize_cache(path: str, readonly: bool = False) -> None:
    """Keep compiled programs in a directory, for later processes too.

    RuntimeError once a device is open: what was compiled before would be missing.
    """
    if _native.opened:
        raise RuntimeError("initialize_cache must come before the first xla tensor")
    os.environ["XLA_PERSISTENT_CACHE_PATH"] = os.path.abspath(path)
    os.environ["XLA_PERSISTENT_CACHE_READ_ONLY"] = "1" if readonly else "0"


def get_num_cached_compilation_graph() -> int:
    """Return the number of compiled programs in memory."""
    return _native.cached_programs()
