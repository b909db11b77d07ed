"""Devices, steps and saving: torch_xla's ``torch_xla.core.xla_model``, usually imported as ``xm``."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import IO, Any, TypedDict, cast

import torch

from .. import _XLAC, _absent, _step, runtime
from .._backend.core import device_index
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
from ._devices import (
    get_xla_supported_devices,
    is_xla_tensor,
    set_replication,
    xla_device,
    xla_device_hw,
    xla_device_kind,
    xla_real_devices,
    xla_replication_devices,
)
from ._nested import (  # noqa: F401
    ToXlaTensorArena,
    _maybe_convert_to_cpu,
    check_view_sharing,
    collect_tensors,
    map_tensors,
    send_cpu_data_to_device,
    unlazy,
)
from ._processes import (
    do_on_ordinals,
    get_local_ordinal,
    get_ordinal,
    is_master_ordinal,
    master_print,
    xla_rendezvous,
    xrt_world_size,
)
from ._random import fork_rng, get_rng_state, set_rng_state

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
    _step.end(wait)


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
