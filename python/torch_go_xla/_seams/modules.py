"""Methods of modules."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from .._backend.device import device_of

Method = Callable[..., Any]


def _module_xla(self: torch.nn.Module, device: Any = None) -> torch.nn.Module:
    """Move all parameters and buffers to an xla device."""
    return self.to(device_of(device))


def _packed_xla(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the packed sequence on the xla device."""
    return self.to(torch.device("xla"), *args, **kwargs)


def xla_methods(module: None, packed: None) -> tuple[Method, Method]:
    """Return ``Module.xla`` and ``PackedSequence.xla``."""
    return _module_xla, _packed_xla


def _crosses(module: torch.nn.Module, device: torch.device | None) -> bool:
    if device is None:
        return False
    return any((p.device.type == "xla") != (device.type == "xla") for p in module.parameters())


def _detach(module: torch.nn.Module) -> None:
    """Release the parameters: what torch.nn.utils.weight_norm has computed of them holds them by its graph."""
    for m in module.modules():
        for name, value in vars(m).items():
            if isinstance(value, torch.Tensor) and value.grad_fn is not None:
                vars(m)[name] = value.detach()


def _swapping(original: Method, target: Callable[..., torch.device | None]) -> Method:
    """Return a method that keeps the parameters on the way to and from the device.

    torch can swap whole tensors, by a setting that is turned on for such moves only: elsewhere it refuses what works
    without.
    """
    future = torch.__future__

    @functools.wraps(original)
    def method(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        if future.get_swap_module_params_on_conversion() or not _crosses(self, target(*args, **kwargs)):
            return original(self, *args, **kwargs)
        _detach(self)
        lazy = {p: type(p) for p in self.parameters() if torch.nn.parameter.is_lazy(p)}
        future.set_swap_module_params_on_conversion(True)
        try:
            return original(self, *args, **kwargs)
        finally:
            future.set_swap_module_params_on_conversion(False)
            for p, kind in lazy.items():
                p.__class__ = kind

    return method


def moves(to: Method, cpu: Method, to_empty: Method) -> tuple[Method, Method, Method]:
    """Return ``Module.to``, ``Module.cpu`` and ``Module.to_empty``."""

    def to_target(*args: Any, **kwargs: Any) -> torch.device | None:
        return torch._C._nn._parse_to(*args, **kwargs)[0]

    def to_empty_target(*, device: Any, recurse: bool = True) -> torch.device | None:
        return None if device is None else device_of(device)

    return (
        _swapping(to, to_target),
        _swapping(cpu, lambda: torch.device("cpu")),
        _swapping(to_empty, to_empty_target),
    )
