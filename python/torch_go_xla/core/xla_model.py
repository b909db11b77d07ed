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
from ..utils import tensor_file
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


# ---- steps ----


def mark_step(wait: bool = False, reset_scope: bool = True) -> None:
    """End a step: compute everything that is recorded. The same as `torch_go_xla.sync`.

    Args:
        wait: return when the programs are done, not when they are on their way.
        reset_scope: accepted for torch_xla's programs.

    Raises:
        XlaError: with ``wait``, a program has failed. It is a CompileError if the compiler refuses the program, an
            OutOfMemoryError if it needs more memory than there is. Without ``wait``, reading a result raises it.

    Example:
        >>> import torch, torch_go_xla.core.xla_model as xm
        >>> x = torch.ones(2, device="xla") * 3  # recorded
        >>> xm.mark_step()
        >>> x.tolist()
        [3.0, 3.0]
    """
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
        >>> import torch, torch_go_xla, torch_go_xla.core.xla_model as xm
        >>> x = torch.ones(2, device="xla").sum()
        >>> xm.add_step_closure(lambda loss: print("loss", loss.item()), args=(x,))
        >>> torch_go_xla.sync()
        loss 2.0
    """
    _step.add_closure(lambda: closure(*args), run_async)


class RateTracker:
    """Counts what is processed and how fast, in items per second.

    Args:
        smooth_factor: weight of the rate before, 0 to 1, in what `rate` returns; by default the variable
            RATE_TRACKER_SMOOTHING, or 0.4.

    Example:
        >>> import time, torch_go_xla.core.xla_model as xm
        >>> tracker = xm.RateTracker(smooth_factor=0)
        >>> tracker.add(32)
        >>> time.sleep(0.01)
        >>> 0 < tracker.rate() <= 3200, tracker.rate(), tracker.global_rate() > 0
        (True, 0.0, True)
    """

    def __init__(self, smooth_factor: float | None = None) -> None:
        default = xu.getenv_as("RATE_TRACKER_SMOOTHING", float, 0.4)
        self._smooth_factor: float = default if smooth_factor is None else smooth_factor
        self._start_time = self._partial_time = time.time()
        self._partial_count = 0.0
        self._partial_rate: float | None = None
        self._count = 0.0

    def add(self, count: float) -> None:
        """Count items.

        Args:
            count: how many were processed since the last call.
        """
        self._count += count

    def rate(self) -> float:
        """Return the smoothed rate, in items per second, of the items that were counted since the last call."""
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
        """Return the rate, in items per second, since the tracker was made."""
        delta = time.time() - self._start_time
        return (self._partial_count + self._count) / delta if delta > 0 else 0.0


def wait_device_ops(devices: Sequence[str] = ()) -> None:
    """Wait until devices have done what was started. What is recorded is not started by this.

    Args:
        devices: names of devices; all devices of this process by default.

    Raises:
        XlaError: a program has failed. The class may be one of its subclasses, such as OutOfMemoryError.

    Example:
        >>> import torch, torch_go_xla, torch_go_xla.core.xla_model as xm
        >>> x = torch.ones(2, device="xla") + 1
        >>> torch_go_xla.sync()  # launches the program
        >>> xm.wait_device_ops()  # it is done
    """
    _XLAC._xla_wait_device_ops(devices)


def unlazy(tensors: Sequence[torch.Tensor]) -> None:
    """Compute just these tensors and wait for them. What else is recorded stays recorded.

    Args:
        tensors: tensors on xla devices.

    Raises:
        RuntimeError: a tensor is not on an xla device.
        XlaError: the program has failed.

    Example:
        >>> import torch, torch_go_xla.core.xla_model as xm
        >>> x, y = torch.ones(2, device="xla") + 1, torch.ones(2, device="xla") + 2
        >>> xm.unlazy([x])  # y stays recorded
    """
    _XLAC._xla_sync_multi(tensors, [], wait=True, sync_xla_data=False)


def optimization_barrier_(tensors: Sequence[torch.Tensor]) -> None:
    """Keep the compiler from moving computations across this point, in place.

    All of the tensors are computed before any of them is used. Tensors whose elements share memory, such as
    expanded ones, are left out: there is nothing to compute.

    Args:
        tensors: tensors on xla devices, of any shapes. Their values stay the same.

    Example:
        >>> import torch, torch_go_xla.core.xla_model as xm
        >>> x = torch.ones(2, device="xla") * 2
        >>> xm.optimization_barrier_([x])  # the product is computed by itself, not fused with the sum
        >>> (x + 1).tolist()
        [3.0, 3.0]
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
    """Replace gradients by their mean over all processes, and step an optimizer.

    Args:
        optimizer: the optimizer.
        barrier: end the step of the device too, as `mark_step` does.
        optimizer_args: keyword arguments of ``optimizer.step``.
        groups: the processes that take the mean together, as for `all_reduce`; all by default.
        pin_layout: accepted for torch_xla's programs.

    Returns:
        What ``optimizer.step`` returns.

    Example:
        >>> import torch, torch_go_xla.core.xla_model as xm
        >>> w = torch.nn.Parameter(torch.ones(2, device="xla"))
        >>> optimizer = torch.optim.SGD([w], lr=0.5)
        >>> w.sum().backward()
        >>> xm.optimizer_step(optimizer, barrier=True)
        >>> w.tolist()
        [0.5, 0.5]
    """
    reduce_gradients(optimizer, groups=groups, pin_layout=pin_layout)
    loss = optimizer.step(**(optimizer_args or {}))
    if barrier:
        mark_step()
    return loss


# ---- processes ----


def is_master_ordinal(local: bool = True) -> bool:
    """Tell whether this is the first process.

    Args:
        local: of this machine; if False, of all machines.

    Example:
        >>> import torch_go_xla.core.xla_model as xm
        >>> xm.is_master_ordinal()
        True
    """
    return (runtime.local_ordinal() if local else runtime.global_ordinal()) == 0


def master_print(*args: Any, fd: IO[str] | None = None, local: bool = False, flush: bool = False) -> None:
    """Print in the first process only.

    Args:
        args: what ``print`` takes.
        fd: an open text file; standard output by default.
        local: print in the first process of each machine, not only in the first of all.
        flush: flush the file afterwards.

    Example:
        >>> import torch_go_xla.core.xla_model as xm
        >>> xm.master_print("epoch", 1)
        epoch 1
    """
    if is_master_ordinal(local=local):
        print(*args, file=fd or sys.stdout, flush=flush)


def get_ordinal() -> int:
    """Return the number of this process among all, from 0.

    Example:
        >>> import torch_go_xla.core.xla_model as xm
        >>> xm.get_ordinal()
        0
    """
    return runtime.global_ordinal()


def get_local_ordinal() -> int:
    """Return the number of this process on its machine, from 0.

    Example:
        >>> import torch_go_xla.core.xla_model as xm
        >>> xm.get_local_ordinal()
        0
    """
    return runtime.local_ordinal()


def xrt_world_size() -> int:
    """Return the number of processes, 1 if there is no job.

    Example:
        >>> import torch_go_xla.core.xla_model as xm
        >>> xm.xrt_world_size()
        1
    """
    return runtime.world_size()


def xla_rendezvous(payload: bytes = b"", ordinals: Sequence[int] | None = None, tag: str | None = None) -> list[bytes]:
    """Return what all processes give, in their order.

    Args:
        payload: what this process gives.
        ordinals: all processes, or None for the same.
        tag: names the call. All processes use the same tags in the same order.

    Raises:
        TypeError: the payload is not bytes.
        ValueError: ``ordinals`` does not name all processes.
        RuntimeError: a process has gone.

    Example:
        >>> import torch_go_xla.core.xla_model as xm
        >>> xm.xla_rendezvous(b"ready")
        [b'ready']
    """
    if ordinals and len(ordinals) != runtime.world_size():
        raise ValueError("Only global rendezvous is supported")
    if not isinstance(payload, bytes):
        raise TypeError(f"`payload` must be bytes, not {type(payload)}")
    return rendezvous(tag or "torch_go_xla.core.xla_model.xla_rendezvous", payload)


def do_on_ordinals(target: Callable[..., Any], data: Any = (), ordinals: Collection[int] = (0,)) -> Any:
    """Call ``target(*data)`` in some processes; the others wait until they are done.

    Args:
        target: the function.
        data: its arguments. Xla tensors in them are passed as CPU tensors.
        ordinals: the numbers of the processes that call it.

    Returns:
        What the function returns, in the processes that call it; None in the others.

    Example:
        >>> import torch, torch_go_xla.core.xla_model as xm
        >>> xm.do_on_ordinals(torch.Tensor.tolist, (torch.ones(2, device="xla"),))
        [1.0, 1.0]
    """
    running = runtime.global_ordinal() in ordinals
    cpu_data = _maybe_convert_to_cpu(data, convert=running)
    result = target(*cpu_data) if running else None
    rendezvous("torch_go_xla.core.xla_model.do_on_ordinals")
    return result


# ---- random numbers ----


def set_rng_state(seed: int, device: Any = None) -> None:
    """Seed a device; the next random op is the first of the seed's stream.

    Args:
        seed: any integer of 64 bits.
        device: a device, its name or index; the current one by default.

    Example:
        >>> import torch, torch_go_xla.core.xla_model as xm
        >>> xm.set_rng_state(1)
        >>> x = torch.rand(2, device="xla")
        >>> xm.set_rng_state(1)
        >>> torch.equal(x, torch.rand(2, device="xla"))
        True
    """
    _native.manual_seed(device_index(device), seed)


def get_rng_state(device: Any = None) -> int:
    """Return the seed of a device.

    Args:
        device: a device, its name or index; the current one by default.

    Example:
        >>> import torch_go_xla.core.xla_model as xm
        >>> xm.set_rng_state(7)
        >>> xm.get_rng_state()
        7
    """
    return _XLAC._xla_get_rng_seed(f"xla:{device_index(device)}")


@contextlib.contextmanager
def fork_rng(device: Any = None, enabled: bool = True) -> Iterator[None]:
    """Restore the state of a device's random numbers when the block ends.

    Args:
        device: a device, its name or index; the current one by default.
        enabled: if False, the block changes the state as usual.

    Example:
        >>> import torch, torch_go_xla.core.xla_model as xm
        >>> with xm.fork_rng():
        ...     x = torch.rand(2, device="xla")
        >>> torch.equal(x, torch.rand(2, device="xla"))  # the same numbers again
        True
    """
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
    """Figures of a device's allocator, in bytes; a plugin may have more of them.

    Example:
        >>> import torch_go_xla.core.xla_model as xm
        >>> info: xm.MemoryInfo = xm.get_memory_info()
        >>> info["bytes_used"] <= info["bytes_limit"]
        True
    """

    bytes_used: int
    bytes_limit: int
    peak_bytes_used: int


def get_memory_info(device: Any = None) -> MemoryInfo:
    """Return the figures of a device's allocator, in bytes.

    Args:
        device: a device, its name or index; the current one by default.

    Raises:
        XlaError: the plugin has no such figures.

    Example:
        >>> import torch_go_xla.core.xla_model as xm
        >>> sorted(xm.get_memory_info())[:2]
        ['bytes_limit', 'bytes_used']
    """
    return cast(MemoryInfo, _native.memory_info(device_index(device)))


# ---- saving ----


def save(
    data: Any, file_or_path: str | os.PathLike[str] | IO[bytes], master_only: bool = True, global_master: bool = False
) -> None:
    """Save data that may hold xla tensors so that ``torch.load`` reads it on a machine without them.

    Every value in the file is of the moment of the call, whatever other threads do meanwhile. Tensors that share a
    storage share it in the file. Tensors are fetched one by one as they are written. A path is written to a temporary
    file next to it, flushed to the disk and renamed. At every moment the old or the new file is there, whole.

    Args:
        data: nested dicts, lists, tuples, modules' state dicts; other leaves than tensors are saved as they are.
        file_or_path: a path, or an open binary file.
        master_only: only the first process writes.
        global_master: with ``master_only``, the first of all processes rather than of each machine.

    Raises:
        OSError: the file cannot be written. The old file stays.
        DonatedBufferError: the buffer of a tensor was given away.

    Example:
        >>> import os, tempfile, torch, torch_go_xla.core.xla_model as xm
        >>> path = os.path.join(tempfile.mkdtemp(), "model.pt")
        >>> xm.save({"w": torch.ones(2, device="xla") + 1}, path)
        >>> torch.load(path)
        {'w': tensor([2., 2.])}
    """
    should_write = is_master_ordinal(local=not global_master) if master_only else True
    if should_write:
        tensor_file.save(data, file_or_path)
    elif runtime.is_spmd():  # to read a value takes all processes, which have its parts
        with open(os.devnull, "wb") as nowhere:
            tensor_file.save(data, nowhere)
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
    """Return nested data with its tensors moved to a device.

    Args:
        datas: tensors in lists, tuples and dicts. A tensor stands for a list of one, so the result is a list.
        device: the device to move them to.
        input_sharding: a `ShardingSpec`. Tensors of its number of dimensions are sharded by it.

    Example:
        >>> import torch, torch_go_xla.core.xla_model as xm
        >>> batch = xm.send_cpu_data_to_device([torch.ones(2), {"y": torch.zeros(1)}], xm.xla_device())
        >>> batch[1]["y"].device
        device(type='xla', index=0)
    """
    if isinstance(datas, torch.Tensor):
        datas = [datas]
    if input_sharding is None:
        return map_tensors(datas, lambda t: t.to(device))
    return map_tensors(datas, lambda t: input_sharding.send(t, device))


def map_tensors(data: Any, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Return nested data with a function applied to its tensors.

    Args:
        data: tensors and other values in lists, tuples and dicts.
        function: gets each tensor, and returns what takes its place.

    Example:
        >>> import torch, torch_go_xla.core.xla_model as xm
        >>> xm.map_tensors({"x": torch.ones(2), "n": 3}, lambda t: t + 1)
        {'x': tensor([2., 2.]), 'n': 3}
    """
    return torch.utils._pytree.tree_map_only(torch.Tensor, function, data)


class ToXlaTensorArena:
    """Converts the tensors in nested data, all together.

    Args:
        convert_fn: takes the list of tensors and returns that of their replacements.
        select_fn: tells which values are meant.

    Example:
        >>> import torch, torch_go_xla.core.xla_model as xm
        >>> def to_xla(tensors):
        ...     return [t.to("xla") for t in tensors]
        >>> arena = xm.ToXlaTensorArena(to_xla, lambda x: isinstance(x, torch.Tensor))
        >>> arena.transform([torch.ones(2), "label"])
        [tensor([1., 1.], device='xla:0'), 'label']
    """

    def __init__(
        self, convert_fn: Callable[[list[torch.Tensor]], list[torch.Tensor]], select_fn: Callable[[Any], bool]
    ) -> None:
        self._convert_fn = convert_fn
        self._select_fn = select_fn

    def transform(self, inputs: Any) -> Any:
        """Return the data with its tensors replaced; tuples become lists.

        Args:
            inputs: nested containers, `DataWrapper` objects, and objects whose attributes hold tensors.
        """
        found: list[torch.Tensor] = []
        xu.for_each_instance(inputs, self._select_fn, found.append)
        converted = self._convert_fn(found) if found else []
        replacements = {id(old): new for old, new in zip(found, converted, strict=True)}
        return xu.for_each_instance_rewrite(inputs, self._select_fn, lambda x: replacements[id(x)])


def check_view_sharing(obj: Any) -> None:
    """Raise an error if two different tensors in nested data share a storage.

    Args:
        obj: nested containers, and objects whose attributes hold tensors.

    Raises:
        RuntimeError: two tensors share a storage; the message has their types and shapes.

    Example:
        >>> import torch, torch_go_xla.core.xla_model as xm
        >>> x = torch.ones(2)
        >>> xm.check_view_sharing([x, torch.ones(2)])
        >>> xm.check_view_sharing([x, x[:1]])
        Traceback (most recent call last):
        RuntimeError: Tensor torch.float32[1] is sharing a view with tensor torch.float32[2]
    """
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
    """Return the tensors in nested data, in its order.

    Args:
        data: tensors and other values in lists, tuples and dicts.

    Example:
        >>> import torch, torch_go_xla.core.xla_model as xm
        >>> xm.collect_tensors([torch.ones(1), "label", {"y": torch.zeros(1)}])
        [tensor([1.]), tensor([0.])]
    """
    return [x for x in torch.utils._pytree.tree_leaves(data) if isinstance(x, torch.Tensor)]


# ---- graphs ----


def get_stablehlo(tensors: Sequence[torch.Tensor] | None = None) -> str:
    """Return the StableHLO module that would compute tensors, as text. Nothing is computed.

    Args:
        tensors: tensors on one xla device. Without any that is recorded and not computed, the text is empty.

    Raises:
        RuntimeError: a tensor is not on an xla device.
        ValueError: the tensors are on different devices.

    Example:
        >>> import torch, torch_go_xla.core.xla_model as xm
        >>> print(xm.get_stablehlo([torch.ones(2, device="xla") + 1]))  # doctest: +ELLIPSIS
        module ...stablehlo.add...
    """
    return _XLAC._get_stablehlo(tensors or [])


__getattr__ = _absent.attributes(__name__)
