"""The low-level functions of torch_xla's ``_XLAC`` that programs and tests use.

Tensors inside ``torch.func.functionalize`` are unwrapped by `settled` before anything reads their storage.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from ._backend.core import device_index, is_xla
from ._backend.snapshot import cpu_tensors, settled
from ._core import call
from ._core import core as _native

_hlo_formats = {"ir": "ir", "dot": "dot", "stablehlo": "stablehlo", "hlo": "hlo"}


def _checked(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    plain = [settled(t) for t in tensors]
    for t in plain:
        if not is_xla(t):
            raise RuntimeError(f"expected xla tensors, got one on {t.device}")
    return plain


def _handles(tensors: Iterable[torch.Tensor]) -> list[int]:
    return [_native.fast.handle(t) for t in _checked(tensors)]


def _devices_of(devices: Sequence[str] | None) -> list[int]:
    if devices:
        return [device_index(d) for d in devices]
    return list(range(_native.device_count())) if _native.opened else []


# ---- steps ----


def _xla_step_marker(device: str, devices: Sequence[str], wait: bool = True, reset_scope: bool = True) -> None:
    """End a step: compute what is recorded on a device, on all of them for ""."""
    targets = [device_index(device)] if device else _devices_of(devices)
    for d in targets:
        _native.sync(d, mark=True)
    if wait:
        for d in targets:
            _native.wait(d)
    if _native.opened and (path := _native.setting("XLA_METRICS_FILE")):
        from .debug.metrics import metrics_report

        with open(path, "a", encoding="utf-8") as file:
            file.write(f"[MetricsData; step={_native.counters().get('MarkStep', 0)}]\n{metrics_report()}\n")


def _xla_sync_multi(
    tensors: Sequence[torch.Tensor], devices: Sequence[str] = (), wait: bool = True, sync_xla_data: bool = True
) -> None:
    """Compute just these tensors, and with them their aliases; what else is recorded stays so."""
    plain = _checked(tensors)
    _native.sync_some([_native.fast.handle(t) for t in plain])
    if wait:
        for d in {t.device.index for t in plain}:
            _native.wait(d)


def _xla_wait_device_ops(devices: Sequence[str] = ()) -> None:
    """Wait until the devices (all of them by default) have done what was started."""
    for d in _devices_of(devices):
        _native.wait(d)


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


def _set_buffer_donation(tensor: torch.Tensor, should_donate: bool) -> None:
    """Give a tensor's buffer away: the next program that reads it takes its memory over.

    Reading the tensor afterwards, or an alias of it, raises DonatedBufferError.
    """
    (handle,) = _handles([tensor])
    call(_native.raw.bindings_SetDonation, handle, should_donate)


def _get_buffer_donation(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor's buffer was given away."""
    (handle,) = _handles([tensor])
    return bool(call(_native.raw.bindings_Donation, handle))


# ---- graphs ----


def _get_xla_tensors_text(tensors: Sequence[torch.Tensor]) -> str:
    """Return the recorded graph of the tensors, one line a node."""
    return _native.dump(_handles(tensors), "ir")


def _get_xla_tensors_dot(tensors: Sequence[torch.Tensor]) -> str:
    """Return the recorded graph of the tensors for Graphviz."""
    return _native.dump(_handles(tensors), "dot")


def _get_xla_tensors_hlo(tensors: Sequence[torch.Tensor]) -> str:
    """Return the StableHLO module that would compute the tensors."""
    return _native.dump(_handles(tensors), "stablehlo")


def _get_stablehlo(
    tensors: Sequence[torch.Tensor], device: str = "", devices: Sequence[str] = (), emit_bytecode: bool = False
) -> str:
    """Return the StableHLO module that would compute the tensors, as text."""
    if emit_bytecode:
        raise NotImplementedError("StableHLO bytecode is not written; use the text")
    return _native.dump(_handles(tensors), "stablehlo")


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


def _describe(tensor: torch.Tensor) -> dict[str, Any]:
    """Return the state of a tensor's storage."""
    return _native.describe(_native.fast.handle(settled(tensor)))
