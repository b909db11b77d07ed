"""Settings and services of the process."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch._C import _ImperativeEngine

from .. import _dynamo
from .._backend import memory_usage, xla_module
from .._backend.core import native, scalar_type

Function = Callable[..., Any]


def default_dtype(original: Function) -> Function:
    """Return ``torch.set_default_dtype``."""

    def follow(dtype: torch.dtype) -> None:
        number = scalar_type(dtype)
        native().set_default_dtype(number)
        native().fast.set_default_type(number)

    def set_default_dtype(d: torch.dtype, /) -> None:
        original(d)
        follow(d)

    if torch.get_default_dtype() != torch.float32:
        follow(torch.get_default_dtype())
    set_default_dtype.__doc__ = original.__doc__
    return set_default_dtype


def matmul_precision(original: Function) -> Function:
    """Return ``torch.set_float32_matmul_precision``."""
    names = {"highest": "highest", "high": "high", "medium": "default"}

    def set_float32_matmul_precision(precision: str) -> None:
        original(precision)
        native().set_precision(names[precision])

    set_float32_matmul_precision.__doc__ = original.__doc__
    return set_float32_matmul_precision


def accelerator(*originals: Function) -> tuple[Function, ...]:
    """Return ``synchronize``, ``current_device_index`` and ``set_device_index``."""

    def synchronize(device: Any = None, /) -> None:
        """Wait for a device."""
        xla_module.synchronize(None if device is None else torch.device(device) if isinstance(device, str) else device)

    return synchronize, xla_module.current_device, xla_module.set_device


class _Engine(_ImperativeEngine):
    """torch's engine, which runs backward passes in the thread that calls them once the device is open."""

    def run_backward(self, *args: Any, **kwargs: Any) -> Any:
        if not (native().opened and torch._C._is_multithreading_enabled()):
            return super().run_backward(*args, **kwargs)
        torch._C._set_multithreading_enabled(False)
        try:
            return super().run_backward(*args, **kwargs)
        finally:
            torch._C._set_multithreading_enabled(True)


def engine(original: Any) -> _Engine:
    """Return the engine of backward passes."""
    return _Engine()


def dynamo_backend() -> str:
    """Take the place of torch's own backend openxla, without loading Dynamo."""
    name = "torch._dynamo.backends.torchxla"
    if name in sys.modules:
        sys.modules["torch._dynamo.backends.registry"]._COMPILER_FNS["openxla"] = _dynamo.openxla
    else:
        sys.modules[name] = ModuleType(name, "openxla is torch_go_xla's, which an entry point names.")
    return ""


def accelerator_memory(*originals: Function) -> tuple[Function, ...]:
    """Return the memory functions of `torch.accelerator`, which ask torch where its accelerator is another device."""
    ours: tuple[Function, ...] = (
        memory_usage.memory_stats,
        memory_usage.reset_accumulated_memory_stats,
        memory_usage.reset_peak_memory_stats,
        memory_usage.mem_get_info,
        xla_module.empty_cache,
    )
    return tuple(_of_accelerator(*pair) for pair in zip(originals, ours * (len(originals) // len(ours)), strict=True))


def _of_accelerator(original: Function, ours: Function) -> Function:
    @functools.wraps(original)
    def function(*args: Any) -> Any:
        accelerator = torch.accelerator.current_accelerator()
        return (ours if accelerator is not None and accelerator.type == "xla" else original)(*args)

    return function
