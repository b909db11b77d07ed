"""Devices, steps and saving: torch_xla's ``torch_xla.core.xla_model``, usually imported as ``xm``."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import IO, Any, TypedDict, cast

import torch

from .. import _XLAC, _absent, _step, runtime
from .. import device as _device
from .._backend.core import device_index, is_xla
from .._core import core as _native
from ..utils import checkpoint_file
from ..utils import utils as xu
from ._collectives import (  # noqa: F401 (torch_xla has them here)
    REDUCE_AND,
    REDUCE_MAX,
    REDUCE_MIN,
    REDUCE_MUL,
    REDUCE_OR,
    REDUCE_SUM,
    _fetch_gradients,
    all_gather,
    all_gather_bucketized,
    all_reduce,
    all_reduce_bucketized_gradients,
    all_to_all,
    broadcast_master_param,
    collective_broadcast,
    collective_permute,
    mesh_reduce,
    reduce_gradients,
    reduce_scatter,
    reduce_scatter_bucketized,
    rendezvous,
)

__all__ = [
    "REDUCE_AND",
    "REDUCE_MAX",
    "REDUCE_MIN",
    "REDUCE_MUL",
    "REDUCE_OR",
    "REDUCE_SUM",
    "MemoryInfo",
    "RateTracker",
    "ToXlaTensorArena",
    "add_step_closure",
    "all_gather",
    "all_gather_bucketized",
    "all_reduce",
    "all_reduce_bucketized_gradients",
    "all_to_all",
    "broadcast_master_param",
    "check_view_sharing",
    "collect_tensors",
    "collective_broadcast",
    "collective_permute",
    "do_on_ordinals",
    "fork_rng",
    "get_local_ordinal",
    "get_memory_info",
    "get_ordinal",
    "get_rng_state",
    "get_stablehlo",
    "get_xla_supported_devices",
    "is_master_ordinal",
    "is_xla_tensor",
    "map_tensors",
    "mark_step",
    "master_print",
    "mesh_reduce",
    "optimization_barrier_",
    "optimizer_step",
    "reduce_gradients",
    "reduce_scatter",
    "reduce_scatter_bucketized",
    "rendezvous",
    "save",
    "send_cpu_data_to_device",
    "set_replication",
    "set_rng_state",
    "unlazy",
    "wait_device_ops",
    "xla_device",
    "xla_device_hw",
    "xla_device_kind",
    "xla_real_devices",
    "xla_rendezvous",
    "xla_replication_devices",
    "xrt_world_size",
]

# ---- devices ----


def xla_device(n: int | None = None, devkind: str | None = None) -> torch.device:
    """Return the xla device of an index, the current one by default.

    ``devkind`` must be the kind of the process's devices, as torch_xla's.
    """
    if devkind is not None and devkind.upper() != runtime.device_type():
        raise RuntimeError(f"no {devkind} device: the devices of this process are {runtime.device_type()}")
    return _device(n)


def get_xla_supported_devices(devkind: str | None = None, max_devices: int | None = None) -> list[str]:
    """Return the names of the devices."""
    if devkind is not None and devkind.upper() != runtime.device_type():
        return []
    return _XLAC._xla_get_devices()[:max_devices]


def xla_device_hw(device: Any) -> str:
    """Return the kind of hardware of a device: CPU, CUDA, TPU, …"""
    return str(_native.devices()[device_index(device)]["platform"]).upper()


def xla_real_devices(devices: Sequence[Any] | None = None) -> list[str]:
    """Return the hardware's names of devices, such as CPU:0."""
    known = _native.devices()
    wanted = range(len(known)) if devices is None else [device_index(d) for d in devices]
    return [f"{known[i]['platform'].upper()}:{i}" for i in wanted]


def xla_device_kind(device: Any = None) -> str:
    """Return what the plugin calls the kind of a device, such as ``cpu`` or ``NVIDIA H100``."""
    return str(_native.devices()[device_index(device)]["kind"])


def xla_replication_devices(local_devices: Sequence[Any] | None = None) -> list[str]:
    """Return the hardware's names of the devices that hold replicas of a program, by default of all of this process."""
    return xla_real_devices(local_devices)


def set_replication(device: Any, devices: Sequence[Any]) -> None:
    """Accept where torch_xla's programs have replicas: the processes of a job find each other by themselves."""


def is_xla_tensor(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor is on an xla device."""
    return is_xla(tensor)


# ---- steps ----


def mark_step(wait: bool = False, reset_scope: bool = True) -> None:
    """End a step: compute everything that is recorded. The same as ``torch_go_xla.sync``."""
    _step.end(wait, reset_scope)


def add_step_closure(closure: Callable[..., Any], args: tuple[Any, ...] = (), run_async: bool = False) -> None:
    """Call a function when the step ends, that is after the next sync.

    Values that it reads, to print or to log them, are computed by then: they cost no program of their own.

    Args:
        closure: the function.
        args: its arguments.
        run_async: call it in a thread beside the next steps, in the order in which closures were added. What it
            raises is raised, as the cause of a RuntimeError, when the next such closure is handed over.

    Example:
        >>> import torch, torch_go_xla
        >>> x = torch.ones(2, device="xla").sum()
        >>> add_step_closure(lambda loss: print("loss", loss.item()), args=(x,))
        >>> torch_go_xla.sync()
        loss 2.0
    """
    _step.add_closure(lambda: closure(*args), run_async)


class RateTracker:
    """Counts what is processed and how fast, in items per second.

    Args:
        smooth_factor: weight of the rate before, 0 to 1, in what `rate` returns; by default the variable
            RATE_TRACKER_SMOOTHING, or 0.4.
    """

    def __init__(self, smooth_factor: float | None = None) -> None:
        default = xu.getenv_as("RATE_TRACKER_SMOOTHING", float, 0.4)
        self._smooth_factor: float = default if smooth_factor is None else smooth_factor
        self._start_time = self._partial_time = time.time()
        self._partial_count = 0.0
        self._partial_rate: float | None = None
        self._count = 0.0

    def add(self, count: float) -> None:
        """Count items."""
        self._count += count

    def rate(self) -> float:
        """Return the smoothed rate of the items that were counted since the last call."""
        now = time.time()
        delta = now - self._partial_time
        if delta <= 0:
            return 0.0
        rate = self._count / delta
        if self._partial_rate is not None:
            rate = (1 - self._smooth_factor) * rate + self._smooth_factor * self._partial_rate
        self._partial_count += self._count
        self._count, self._partial_time, self._partial_rate = 0.0, now, rate
        return rate

    def global_rate(self) -> float:
        """Return the rate since the tracker was made."""
        delta = time.time() - self._start_time
        return (self._partial_count + self._count) / delta if delta > 0 else 0.0


def wait_device_ops(devices: Sequence[str] = ()) -> None:
    """Wait until the devices have done what was started; RuntimeError subclasses report what failed."""
    _XLAC._xla_wait_device_ops(devices)


def unlazy(tensors: Sequence[torch.Tensor]) -> None:
    """Compute just these tensors and wait for them."""
    _XLAC._xla_sync_multi(tensors, [], wait=True, sync_xla_data=False)


def optimization_barrier_(tensors: Sequence[torch.Tensor]) -> None:
    """Keep the compiler from moving computations across this point, in place.

    All of the tensors are computed before any of them is used. Tensors whose elements share memory, such as
    expanded ones, are left out: there is nothing to compute.
    """
    plain = [getattr(t, "_local_tensor", t).detach() for t in tensors]
    plain = [t for t in plain if torch._debug_has_internal_overlap(t) != 1]
    if plain:
        for t, value in zip(plain, torch.ops.torch_go_xla.optimization_barrier(plain), strict=True):
            t.copy_(value)


def optimizer_step(
    optimizer: torch.optim.Optimizer,
    barrier: bool = False,
    optimizer_args: dict[str, Any] | None = None,
    groups: Any = None,
    pin_layout: bool = True,
) -> Any:
    """Step an optimizer by the mean of all processes' gradients, and with ``barrier`` end the step of the device."""
    reduce_gradients(optimizer, groups=groups, pin_layout=pin_layout)
    loss = optimizer.step(**(optimizer_args or {}))
    if barrier:
        mark_step()
    return loss


# ---- processes ----


def is_master_ordinal(local: bool = True) -> bool:
    """Tell whether this is the first process, of the machine or of all."""
    return (runtime.local_ordinal() if local else runtime.global_ordinal()) == 0


def master_print(*args: Any, fd: IO[str] | None = None, local: bool = False, flush: bool = False) -> None:
    """Print in the first process only."""
    if is_master_ordinal(local=local):
        print(*args, file=fd or sys.stdout, flush=flush)


def get_ordinal() -> int:
    """Return the number of this process among all."""
    return runtime.global_ordinal()


def get_local_ordinal() -> int:
    """Return the number of this process on its machine."""
    return runtime.local_ordinal()


def xrt_world_size() -> int:
    """Return the number of processes."""
    return runtime.world_size()


def xla_rendezvous(payload: bytes = b"", ordinals: Sequence[int] | None = None, tag: str | None = None) -> list[bytes]:
    """Return what all processes give, in their order.

    TypeError for a payload that is not bytes, ValueError for some of the processes.
    """
    if ordinals and len(ordinals) != runtime.world_size():
        raise ValueError("Only global rendezvous is supported")
    if not isinstance(payload, bytes):
        raise TypeError(f"`payload` must be bytes, not {type(payload)}")
    return rendezvous(tag or "torch_go_xla.core.xla_model.xla_rendezvous", payload)


def do_on_ordinals(target: Callable[..., Any], data: Any = (), ordinals: Collection[int] = (0,)) -> Any:
    """Call ``target(*data)``, with tensors of ``data`` on the CPU, in some processes; the others wait.

    Returns its result there, None in the other processes.
    """
    running = runtime.global_ordinal() in ordinals
    cpu_data = _maybe_convert_to_cpu(data, convert=running)
    result = target(*cpu_data) if running else None
    rendezvous("torch_go_xla.core.xla_model.do_on_ordinals")
    return result


# ---- random numbers ----


def set_rng_state(seed: int, device: Any = None) -> None:
    """Seed a device; the next random op is the first of the seed's stream."""
    _native.manual_seed(device_index(device), seed)


def get_rng_state(device: Any = None) -> int:
    """Return the seed of a device."""
    return _XLAC._xla_get_rng_seed(f"xla:{device_index(device)}")


@contextlib.contextmanager
def fork_rng(device: Any = None, enabled: bool = True) -> Iterator[None]:
    """Give the random numbers of a device back their state of before when the block ends, unless not ``enabled``."""
    if not enabled:
        yield
        return
    generator = device_index(device)
    state = _native.get_rng_state(generator)
    try:
        yield
    finally:
        _native.set_rng_state(generator, state)


# ---- memory ----


class MemoryInfo(TypedDict, total=False):
    """Figures of a device's allocator, in bytes; a plugin may have more of them."""

    bytes_used: int
    bytes_limit: int
    peak_bytes_used: int


def get_memory_info(device: Any = None) -> MemoryInfo:
    """Return the figures of a device's allocator.

    Example:
        >>> sorted(get_memory_info())[:2]
        ['bytes_limit', 'bytes_used']
    """
    return cast(MemoryInfo, _native.memory_info(device_index(device)))


# ---- saving ----


def save(
    data: Any, file_or_path: str | os.PathLike[str] | IO[bytes], master_only: bool = True, global_master: bool = False
) -> None:
    """Save data that may hold xla tensors so that ``torch.load`` reads it on a machine without them.

    Every value in the file is of the moment of the call, whatever other threads do meanwhile; tensors that share a
    storage share it in the file. Tensors are fetched one by one as they are written. A path is written beside,
    flushed to the disk and renamed: whatever happens, the old or the new file is there, whole.

    Args:
        data: nested dicts, lists, tuples, modules' state dicts; other leaves than tensors are saved as they are.
        file_or_path: a path, or an open binary file.
        master_only: only the first process writes.
        global_master: with ``master_only``, the first of all processes rather than of each machine.
    """
    should_write = is_master_ordinal(local=not global_master) if master_only else True
    if should_write:
        checkpoint_file.save(data, file_or_path)
    elif runtime.is_spmd():  # to read a value takes all processes, which have its parts
        with open(os.devnull, "wb") as nowhere:
            checkpoint_file.save(data, nowhere)
    else:
        mark_step(wait=True)  # what is recorded may need all processes


def _maybe_convert_to_cpu(data: Any, convert: bool = True) -> Any:
    """Return nested data with its xla tensors as CPU tensors, all of one moment; without ``convert``, compute them."""
    leaves, spec = torch.utils._pytree.tree_flatten(data)
    places = [i for i, leaf in enumerate(leaves) if is_xla(leaf)]
    if not convert:
        unlazy([leaves[i] for i in places])
        return data
    for i, value in zip(places, _XLAC._xla_get_cpu_tensors([leaves[i] for i in places]), strict=True):
        leaves[i] = value
    return torch.utils._pytree.tree_unflatten(leaves, spec)


def send_cpu_data_to_device(datas: Any, device: Any, input_sharding: Any = None) -> Any:
    """Return nested data with its CPU tensors moved to a device.

    ``input_sharding`` is a ShardingSpec for those of its number of dimensions.
    """
    if input_sharding is None:
        return map_tensors(datas, lambda t: t.to(device))
    return map_tensors(datas, lambda t: input_sharding.send(t, device))


def map_tensors(data: Any, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Return nested data with a function applied to its tensors."""
    return torch.utils._pytree.tree_map_only(torch.Tensor, function, data)


class ToXlaTensorArena:
    """Converts the tensors in nested data, all together.

    Args:
        convert_fn: takes the list of tensors and returns that of their replacements.
        select_fn: tells which values are meant.
    """

    def __init__(
        self, convert_fn: Callable[[list[torch.Tensor]], list[torch.Tensor]], select_fn: Callable[[Any], bool]
    ) -> None:
        self._convert_fn = convert_fn
        self._select_fn = select_fn

    def transform(self, inputs: Any) -> Any:
        """Return the data with its tensors replaced; tuples become lists."""
        found: list[torch.Tensor] = []
        xu.for_each_instance(inputs, self._select_fn, found.append)
        converted = self._convert_fn(found) if found else []
        replacements = {id(old): new for old, new in zip(found, converted, strict=True)}
        return xu.for_each_instance_rewrite(inputs, self._select_fn, lambda x: replacements[id(x)])


def check_view_sharing(obj: Any) -> None:
    """RuntimeError if two different tensors in nested data share a storage."""
    owners: dict[int, torch.Tensor] = {}

    def check(t: torch.Tensor) -> None:
        storage = t.untyped_storage()._cdata
        other = owners.setdefault(storage, t)
        if other is not t:
            raise RuntimeError(
                f"Tensor {t.dtype}{list(t.size())} is sharing a view with tensor {other.dtype}{list(other.size())}"
            )

    xu.for_each_instance(obj, lambda x: type(x) is torch.Tensor, check)


def collect_tensors(data: Any) -> Iterable[torch.Tensor]:
    """Return the tensors in nested data."""
    return [x for x in torch.utils._pytree.tree_leaves(data) if isinstance(x, torch.Tensor)]


# ---- graphs ----


def get_stablehlo(tensors: Sequence[torch.Tensor] | None = None) -> str:
    """Return the StableHLO module that would compute the tensors, as text."""
    return _XLAC._get_stablehlo(tensors or [])


__getattr__ = _absent.attributes(__name__)
