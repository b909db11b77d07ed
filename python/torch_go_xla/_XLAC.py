"""The low-level functions of torch_xla's ``_XLAC`` that programs and tests use.

Tensors inside ``torch.func.functionalize`` are unwrapped by `unwrapped` before anything reads their storage.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from . import _step
from ._backend import partitioning
from ._backend.core import device_index, is_xla
from ._backend.op_sharding import OpSharding, ShardingType
from ._backend.snapshot import cpu_tensors, unwrapped
from ._backend.sparse_parts import parts
from ._core import core as _native
from .backends import get_mat_mul_precision as _xla_get_mat_mul_precision  # noqa: F401
from .backends import set_mat_mul_precision as _xla_set_mat_mul_precision  # noqa: F401


def _checked(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    plain = [unwrapped(t) for t in tensors]
    for t in plain:
        if not is_xla(t):
            raise RuntimeError(f"expected xla tensors, got one on {t.device}")
    return plain


def _handles(tensors: Iterable[torch.Tensor]) -> list[int]:
    return [_native.fast.handle(part) for t in _checked(tensors) for part in parts(t)]


# ---- steps ----


def _xla_step_marker(device: str, devices: Sequence[str], wait: bool = True, reset_scope: bool = True) -> None:
    """End a step: compute what is recorded on a device, on all of them for ""."""
    targets = [device_index(d) for d in ((device,) if device else devices)]
    try:
        for d in targets:
            _native.sync(d, mark=d == targets[-1])
        if wait:
            _native.finish_all(targets)
        if not targets:
            _native.end_step(wait)
    finally:
        _step.report()


def _xla_sync_multi(
    tensors: Sequence[torch.Tensor], devices: Sequence[str] = (), wait: bool = True, sync_xla_data: bool = True
) -> None:
    """Compute just these tensors, and with them their aliases; what else is recorded stays so."""
    plain = _checked(tensors)
    _native.sync_some(_handles(plain))
    if wait:
        _native.finish_all({t.device.index for t in plain})


def _xla_wait_device_ops(devices: Sequence[str] = ()) -> None:
    """Wait until the devices (all of them by default) have done what was started."""
    if devices:
        _native.finish_all(map(device_index, devices))
    elif _native.opened:
        _native.finish(-1)


def _functionalize_sync(tensors: Sequence[torch.Tensor] = ()) -> None:
    """Bring functional tensors up to date with their base.

    Aliases of plain tensors share a storage and need nothing of the kind.
    """
    for t in tensors:
        if torch._is_functional_tensor(t):
            torch._sync(t)  # type: ignore[attr-defined, no-untyped-call]


functionalize_sync = _functionalize_sync
_xla_functionalize_sync = _functionalize_sync


def _xla_get_cpu_tensors(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return CPU copies of the tensors, all of one moment; see `snapshot` for the order of the steps."""
    return cpu_tensors(_checked(tensors))


def _set_buffer_donation(tensor: torch.Tensor, should_donate: bool) -> bool:
    """Give a tensor's buffer away: the next program that reads it takes its memory over. Returns True.

    Reading the tensor afterwards, or an alias of it, raises DonatedBufferError. The error names the line that gave the
    buffer away, the one that recorded the value, and the step whose program took it.
    """
    (handle,) = _handles([tensor])
    caller = sys._getframe(1)
    where = f"{caller.f_code.co_filename}:{caller.f_lineno}"
    _native.set_donation(handle, should_donate, where)
    _native.count("XlaSetBufferDonation")
    return True


def _get_buffer_donation(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor's buffer was given away."""
    (handle,) = _handles([tensor])
    return _native.donation(handle)


# ---- graphs ----


def _get_xla_tensors_text(tensors: Sequence[torch.Tensor]) -> str:
    """Return the recorded graph of the tensors, one line a node."""
    return _native.dump(_handles(tensors), "ir")


def _get_xla_tensors_nodes(tensors: Sequence[torch.Tensor]) -> list[dict[str, Any]]:
    """Return what is known of the nodes of that text: slot, Python line ("where"), flops and bytes of each."""
    return json.loads(_native.dump(_handles(tensors), "nodes") or "[]")  # type: ignore[no-any-return]


def _get_xla_tensors_dot(tensors: Sequence[torch.Tensor]) -> str:
    """Return the recorded graph of the tensors for Graphviz."""
    return _native.dump(_handles(tensors), "dot")


def _get_xla_tensors_hlo(tensors: Sequence[torch.Tensor]) -> str:
    """Return the StableHLO module that this process would compile for the tensors; it may call code of the process."""
    return _native.dump(_handles(tensors), "program")


def _get_stablehlo(
    tensors: Sequence[torch.Tensor], device: str = "", devices: Sequence[str] = (), emit_bytecode: bool = False
) -> str:
    """Return a StableHLO module that computes the tensors, as text, for any backend."""
    if emit_bytecode:
        raise NotImplementedError("StableHLO bytecode is not written; use the text")
    return _native.dump(_handles(tensors), "stablehlo")


# ---- shardings ----


def _global(tensor: torch.Tensor) -> torch.Tensor:
    """Return the global tensor of an XLAShardedTensor or a DTensor, another tensor as it is."""
    return getattr(tensor, "_local_tensor", tensor)


def _sharding(tensor: torch.Tensor) -> OpSharding | None:
    text = partitioning.sharding_of(unwrapped(_global(tensor)))
    return OpSharding.parse(text) if text else None


def _get_xla_sharding_spec(tensor: torch.Tensor) -> str:
    """Return the sharding of a tensor as text, such as ``{devices=[2,1]0,1}``; "" if there is none."""
    return str(_sharding(tensor) or "")


def _get_xla_sharding_specs(tensors: Sequence[torch.Tensor]) -> list[str]:
    """Return the shardings of tensors as texts."""
    return [_get_xla_sharding_spec(t) for t in tensors]


def _get_xla_op_sharding(tensor: torch.Tensor) -> OpSharding | None:
    """Return the sharding of a tensor; None if there is none."""
    return _sharding(tensor)


def _get_xla_sharding_type(tensor: torch.Tensor) -> int | None:
    """Return the form of a tensor's sharding, a ShardingType; None if there is none."""
    sharding = _sharding(tensor)
    return None if sharding is None else int(sharding.type)


def _xla_mark_sharding(tensor: torch.Tensor, sharding: OpSharding) -> None:
    """Give a tensor a sharding, in place; RuntimeError if it has another one than replication."""
    known = _sharding(tensor)
    if known is not None and known != sharding and known.type is not ShardingType.REPLICATED:
        raise RuntimeError(f"Existing annotation must be cleared first: the tensor is sharded {known}")
    partitioning.annotate_(_global(tensor), str(sharding))


def _xla_annotate_custom_sharding(tensor: torch.Tensor, sharding: OpSharding) -> None:
    """Give a tensor a sharding, in place, whichever it had."""
    partitioning.annotate_(_global(tensor), str(sharding))


def _xla_clear_sharding(tensor: torch.Tensor) -> None:
    """Take a tensor's sharding away."""
    partitioning.clear_(_global(tensor))


def _mark_manual_sharding(tensor: torch.Tensor, sharding: OpSharding) -> None:
    """Make a recorded value one of each device by itself, in place, unless it is; RuntimeError for other values."""
    plain = _global(tensor)
    if partitioning.is_manual(plain):
        return
    if _describe(plain)["state"] != "pending":
        raise RuntimeError("only a value that is recorded and not computed can be marked manual")
    plain.data = partitioning.full_to_shard(plain.detach(), "{replicated}")


def _spmd_full_to_shard_shape(tensor: torch.Tensor) -> torch.Tensor:
    """Return what each device holds of a tensor, by itself; RuntimeError if the tensor is not sharded."""
    sharding = _get_xla_sharding_spec(tensor)
    if not sharding:
        raise RuntimeError("_spmd_full_to_shard_shape: the tensor has no sharding")
    return partitioning.full_to_shard(_global(tensor), sharding)


def _spmd_shard_to_full_shape(
    tensor: torch.Tensor, sharding: OpSharding, output_shape: Sequence[int], output_dtype: torch.dtype
) -> torch.Tensor:
    """Return the tensor of which each device holds its own value; RuntimeError if the values are not of each device."""
    if not partitioning.is_manual(_global(tensor)):
        raise RuntimeError("_spmd_shard_to_full_shape: the tensor has one value for all devices")
    return partitioning.shard_to_full(_global(tensor), str(sharding), output_shape).to(output_dtype)


def _global_tensor_from_cpu_shards(
    shards: Sequence[torch.Tensor], sharding: OpSharding, global_shape: Sequence[int] | None = None
) -> torch.Tensor:
    """Return the tensor of which each device holds one of these shards, which are filled up where it does not divide.

    RuntimeError if there is not one a device, or they are not the shards of a tensor of the global shape.
    """
    if len(shards) != partitioning.num_devices():
        raise RuntimeError(f"{len(shards)} shards for {partitioning.num_devices()} devices")
    local = list(shards[0].shape)
    tiles = sharding.tiles or (1,) * len(local)
    whole = [n * count for n, count in zip(local, tiles, strict=True)] if global_shape is None else list(global_shape)
    if len(whole) != len(local) or [-(-n // count) for n, count in zip(whole, tiles, strict=True)] != local:
        raise RuntimeError(
            f"shards of shape {local} are not the shards of a tensor of shape {whole} that is {sharding}"
        )
    t = torch.empty(whole, dtype=shards[0].dtype, device="xla")
    partitioning.annotate_(t, str(sharding))
    t.copy_(torch.zeros(whole, dtype=t.dtype))  # shards can replace a value that is there
    held = partitioning.shards(t)
    partitioning.set_shards_(t, [shards[s.device][tuple(slice(0, n) for n in s.data.shape)] for s in held])
    return t


# ---- devices ----


def _xla_get_devices() -> list[str]:
    """Return the names of the devices: xla:0, …"""
    return [f"xla:{i}" for i in range(_native.device_count())]


def _xla_num_devices() -> int:
    """Return the number of devices."""
    return _native.device_count()


def _xla_get_default_device() -> str:
    """Return the name of the current device."""
    return f"xla:{_native.fast.current_device()}"


def _xla_memory_info(device: str) -> dict[str, int]:
    """Return the figures of a device's allocator, in bytes."""
    return _native.memory_info(device_index(device))


def _xla_set_rng_seed(seed: int, device: str = "") -> None:
    """Seed a device."""
    _native.manual_seed(device_index(device or None), seed)


def _xla_get_rng_seed(device: str = "") -> int:
    """Return the seed of a device."""
    return int.from_bytes(_native.get_rng_state(device_index(device or None))[:8], "little", signed=True)


# ---- metrics ----


def _xla_counter_names() -> list[str]:
    """Return the names of the counters that are not zero."""
    return sorted(_native.counters())


def _xla_counter_value(name: str) -> int | None:
    """Return a counter, None if nothing was counted."""
    return _native.counters().get(name)


def _xla_metric_names() -> list[str]:
    """Return the names of the metrics that have samples."""
    return [m["name"] for m in _native.metrics()]


def _xla_metric_data(name: str) -> tuple[int, float, list[tuple[float, float]]] | None:
    """Return count, total and the latest samples of a metric; None if it has none."""
    for m in _native.metrics():
        if m["name"] == name:
            return m["count"], m["total"], [(0.0, s) for s in m["samples"]]
    return None


def _get_xla_tensor_debug_info(tensor: torch.Tensor) -> str:
    """Return what is known of a tensor: where it is, its recorded op or its buffer, its sharding."""
    plain = unwrapped(_global(tensor))
    state, spec = _describe(plain), _get_xla_sharding_spec(plain)
    sharded = partitioning.is_spmd()
    lines = [f"Device: {'SPMD:0' if sharded else plain.device}", f"Size: {list(plain.shape)}"]
    if state["state"] == "pending":
        lines += [f"IR: {_native.dump([_native.fast.handle(plain)], 'ir').strip()}", "XLAData: None"]
    elif state["state"] != "device":
        lines += ["IR: None", "XLAData: None"]
    elif not sharded:
        lines += ["IR: xla::device_data", f"XLAData: {state['shape']}"]
    else:
        lines += [
            "IR: xla::device_data",
            "XLAShardedData:",
            "  Data Device: SPMD:0",
            f"  Data Shape: {state['shape']}",
            f"  OpSharding: {spec or '{replicated}'}",
            f"  NumShards: {partitioning.num_devices()}",
        ]
    lines.append(f"ShardingSpec: {spec or None}")
    return "\n".join([*lines, "Tensor on host: None"])


def _describe(tensor: torch.Tensor) -> dict[str, Any]:
    """Return the state of a tensor's storage."""
    return _native.describe(_native.fast.handle(unwrapped(tensor)))
