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
    """Return the kind of the devices: CPU, CUDA, TPU, or a registered plugin's name.

    Example:
        >>> import torch_go_xla.runtime as xr
        >>> xr.device_type()
        'CPU'
    """
    return os.environ.get("PJRT_DEVICE", "CPU").upper()


def set_device_type(pjrt_device: str) -> None:
    """Choose the kind of device, as the variable PJRT_DEVICE does.

    Args:
        pjrt_device: CPU, CUDA, TPU, or a registered plugin's name.

    Raises:
        RuntimeError: a device of another kind is open.

    Example:
        >>> import torch_go_xla.runtime as xr
        >>> xr.set_device_type("CPU")
    """
    if _native.opened and pjrt_device.upper() != device_type():
        raise RuntimeError(f"the device is open: it is {device_type()} and cannot become {pjrt_device}")
    os.environ["PJRT_DEVICE"] = pjrt_device


def is_bf16_supported() -> bool:
    """Return True: every XLA backend has bfloat16.

    Example:
        >>> import torch_go_xla.runtime as xr
        >>> xr.is_bf16_supported()
        True
    """
    return True


def use_spmd(auto: bool = False) -> None:
    """Make one device, ``xla:0``, of all devices of all processes, over which tensors and programs are sharded.

    Call it before there are tensors on other devices. Those on ``xla:0`` stay, on every device. Every process runs the
    same program on the same values, of which its devices hold their shards. Calling it again does nothing. It sets the
    variable XLA_USE_SPMD, so that processes which this one spawns use SPMD too.

    Args:
        auto: must be False: tensors are annotated by hand.

    Raises:
        NotImplementedError: ``auto`` is True.
        RuntimeError: there are tensors on other devices.

    Example:
        Four devices (``CPU_NUM_DEVICES=4``), which hold a row each:

        >>> import torch, torch_go_xla.runtime as xr, torch_go_xla.distributed.spmd as xs
        >>> xr.use_spmd()
        >>> mesh = xs.Mesh(range(4), (4,), ("x",))
        >>> x = xs.mark_sharding(torch.ones(4, 2, device="xla"), mesh, ("x", None))
        >>> [tuple(shard.data.shape) for shard in x.local_shards]
        [(1, 2), (1, 2), (1, 2), (1, 2)]
    """
    if auto:
        raise NotImplementedError("automatic sharding is not supported: annotate tensors by hand")
    partitioning.use_spmd()


def is_spmd() -> bool:
    """Tell whether `use_spmd` was called.

    Example:
        >>> import torch_go_xla.runtime as xr
        >>> xr.use_spmd()
        >>> xr.is_spmd()
        True
    """
    return partitioning.is_spmd()


def global_runtime_device_count() -> int:
    """Return the number of devices of all processes.

    Example:
        >>> import torch_go_xla.runtime as xr
        >>> xr.use_spmd()
        >>> xr.global_runtime_device_count()  # with CPU_NUM_DEVICES=4
        4
    """
    return _native.partitions() or _native.device_count() * world_size()


def addressable_runtime_device_count() -> int:
    """Return the number of devices of this process.

    Example:
        >>> import torch_go_xla.runtime as xr
        >>> xr.use_spmd()
        >>> xr.addressable_runtime_device_count()  # with CPU_NUM_DEVICES=4
        4
    """
    return global_runtime_device_count() // world_size()


def global_device_count() -> int:
    """Return the number of xla devices of all processes; SPMD makes one of those of a process.

    Example:
        >>> import torch_go_xla.runtime as xr
        >>> xr.use_spmd()
        >>> xr.global_device_count()  # with CPU_NUM_DEVICES=4
        1
    """
    return _native.device_count() * world_size()


def local_device_count() -> int:
    """Return the number of xla devices of this machine; SPMD makes one of those of a process.

    Example:
        >>> import torch_go_xla.runtime as xr
        >>> xr.use_spmd()
        >>> xr.local_device_count()  # with CPU_NUM_DEVICES=4
        1
    """
    return _native.device_count() * local_process_count()


def addressable_device_count() -> int:
    """Return the number of xla devices of this process; SPMD makes one of them.

    Example:
        >>> import torch_go_xla.runtime as xr
        >>> xr.use_spmd()
        >>> xr.addressable_device_count()  # with CPU_NUM_DEVICES=4
        1
    """
    return _native.device_count()


def runtime_device_attributes(device: str) -> dict[str, Any]:
    """Return what the plugin says of a device: numbers, texts and lists by name.

    Args:
        device: an xla device or its name.

    Raises:
        ValueError: it is not an xla device.

    Example:
        >>> import torch_go_xla.runtime as xr
        >>> attributes = xr.runtime_device_attributes("xla:0")
    """
    from ._backend.core import device_index

    return dict(_native.devices()[device_index(device)]["attributes"] or {})


def global_runtime_device_attributes() -> list[dict[str, Any]]:
    """Return what the plugin says of every device, and its name, such as ``CPU:0``.

    Example:
        >>> import torch_go_xla.runtime as xr
        >>> xr.use_spmd()
        >>> [device["name"] for device in xr.global_runtime_device_attributes()]  # with CPU_NUM_DEVICES=4
        ['CPU:0', 'CPU:1', 'CPU:2', 'CPU:3']
    """
    return [{**(d["attributes"] or {}), "name": f"{d['platform'].upper()}:{d['index']}"} for d in _native.devices()]


def world_size() -> int:
    """Return the number of processes of the run, 1 if there is no job.

    Raises:
        ValueError: RANK, WORLD_SIZE and the like do not describe a job.

    Example:
        >>> import torch_go_xla.runtime as xr
        >>> xr.world_size()
        1
    """
    return _job.current().world_size


def global_ordinal() -> int:
    """Return the number of this process among all, from 0.

    Example:
        >>> import torch_go_xla.runtime as xr
        >>> xr.global_ordinal()
        0
    """
    return _job.current().rank


def local_ordinal() -> int:
    """Return the number of this process on its machine, from 0.

    Example:
        >>> import torch_go_xla.runtime as xr
        >>> xr.local_ordinal()
        0
    """
    return _job.current().local_rank


def process_count() -> int:
    """Return the number of processes of the run: the same as `world_size`.

    Example:
        >>> import torch_go_xla.runtime as xr
        >>> xr.process_count()
        1
    """
    return world_size()


def local_process_count() -> int:
    """Return the number of processes of this machine.

    Example:
        >>> import torch_go_xla.runtime as xr
        >>> xr.local_process_count()
        1
    """
    return _job.current().local_world_size


def process_index() -> int:
    """Return the number of this process among all: the same as `global_ordinal`.

    Example:
        >>> import torch_go_xla.runtime as xr
        >>> xr.process_index()
        0
    """
    return global_ordinal()


def host_index() -> int:
    """Return the number of this machine among those of the job, as the device's plugin says it.

    Example:
        >>> import torch_go_xla.runtime as xr
        >>> xr.host_index()
        0
    """
    from . import plugins

    return plugins.find_plugin(device_type()).host_index()


def get_master_ip() -> str:
    """Return the address of the machine of the first process, MASTER_ADDR.

    Raises:
        RuntimeError: there is no job.

    Example:
        >>> import os, torch_go_xla.runtime as xr
        >>> os.environ["MASTER_ADDR"] = "10.0.0.1"  # as torchrun does
        >>> xr.get_master_ip()
        '10.0.0.1'
        >>> del os.environ["MASTER_ADDR"]
    """
    address = os.environ.get("MASTER_ADDR")
    if address is None:
        raise RuntimeError("get_master_ip: MASTER_ADDR is not set: start the job by torchrun or torch_go_xla.launch")
    return address


def initialize_cache(path: str, readonly: bool = False) -> None:
    """Keep compiled programs in a directory, for later processes too.

    Args:
        path: the directory, as the variable XLA_PERSISTENT_CACHE_PATH.
        readonly: read the programs that are there, and write none.

    Raises:
        RuntimeError: a device is open. What was compiled before would be missing.

    Example:
        At the start of a program:

        >>> import torch_go_xla.runtime as xr
        >>> xr.initialize_cache("/tmp/programs")  # doctest: +SKIP
    """
    if _native.opened:
        raise RuntimeError("initialize_cache must come before the first xla tensor")
    os.environ["XLA_PERSISTENT_CACHE_PATH"] = os.path.abspath(path)
    os.environ["XLA_PERSISTENT_CACHE_READ_ONLY"] = "1" if readonly else "0"


def get_num_cached_compilation_graph() -> int:
    """Return the number of compiled programs in memory.

    Example:
        >>> import torch, torch_go_xla, torch_go_xla.runtime as xr
        >>> x = torch.ones(2, device="xla") + 1
        >>> torch_go_xla.sync()
        >>> xr.get_num_cached_compilation_graph() > 0
        True
    """
    return _native.cached_programs()
