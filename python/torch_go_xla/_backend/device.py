"""Makes ``xla`` a device of torch: PrivateUse1 renamed, its guard, its hooks, its module and its methods.

Torch gives out-of-tree devices one dispatch key, PrivateUse1, and lets Python register what C++ backends
register. ``xla`` is also a device of its own in torch's C++ table; a torch that looks there first would
not give us the name, so `check_torch` tries it.
"""

from __future__ import annotations

import copy
import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

import torch

from . import xla_module
from .core import native, scalar_type

WORKS_WITH = "torch_go_xla works with torch 2.14 and newer; 2.15 is the one it is tested with"

# Versions of torch whose device guards have the methods that gocore/pyfast/guard.c replaces, in their places.
_KNOWN_GUARDS = (["2", "15"],)


def check_torch() -> None:
    """Raise ImportError where this torch, or another backend in the process, leaves no room for the device."""
    if "torch_xla" in sys.modules:
        raise ImportError("torch_xla is loaded in this process; it and torch_go_xla cannot share the device name xla")
    taken = torch._C._get_privateuse1_backend_name()
    if taken not in ("privateuseone", "xla"):
        raise ImportError(f"another backend, {taken!r}, has taken torch's PrivateUse1 key in this process")
    wanted = ("register_python_privateuseone_hook", "register_python_privateuseone_device_guard")
    acc = getattr(torch._C, "_acc", None)
    if not all(hasattr(acc, name) for name in wanted):
        raise ImportError(f"torch {torch.__version__} has no Python backends. {WORKS_WITH}")


def claim_device() -> None:
    """Take the name and the dispatch key."""
    torch.utils.rename_privateuse1_backend("xla")
    if torch.device("xla:0") != torch.device("privateuseone:0"):
        raise ImportError(f"torch {torch.__version__} does not let a Python backend be named xla. {WORKS_WITH}")
    torch._register_device_module("xla", xla_module)
    _register_hooks()


def _register_hooks() -> None:
    acc: Any = torch._C._acc

    class Hooks(acc.PrivateUse1Hooks):  # type: ignore[misc]
        def is_available(self) -> bool:
            return True

        def is_built(self) -> bool:
            return True

        def has_primary_context(self, index: int) -> bool:
            return True

    device_type: Any = torch._C._autograd.DeviceType

    class Carrier(device_type):  # type: ignore[misc]
        """A device type that can have attributes."""

    class Guard(acc.DeviceGuard):  # type: ignore[misc]
        # Autograd asks for the type more than once per recorded op, and does not pass self to a function in C.
        type_ = native().fast.device_type(device_type.PrivateUse1, Carrier)

    acc.register_python_privateuseone_hook(Hooks())
    acc.register_python_privateuseone_device_guard(Guard())
    if torch.__version__.split(".")[:2] in _KNOWN_GUARDS:
        native().fast.answer_for_guard()


# ---- methods ----


def _device_of(device: Any) -> torch.device:
    if device is None:
        return torch.device("xla", xla_module.current_device())
    return torch.device("xla", device) if isinstance(device, int) else torch.device(device)


def _tensor_xla(
    self: torch.Tensor,
    device: Any = None,
    non_blocking: bool = False,
    memory_format: torch.memory_format = torch.preserve_format,
) -> torch.Tensor:
    """Return the tensor on an xla device; the tensor itself if it is there."""
    return self.to(_device_of(device), non_blocking=non_blocking, memory_format=memory_format)


def _module_xla(self: torch.nn.Module, device: Any = None) -> torch.nn.Module:
    """Move all parameters and buffers to an xla device."""
    return self.to(_device_of(device))


def _packed_xla(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the packed sequence on the xla device."""
    return self.to(torch.device("xla"), *args, **kwargs)


def _pin_memory(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def pin_memory(self: torch.Tensor, device: Any = None) -> torch.Tensor:
        """Return the tensor: the runtime copies from any host memory, so none is page-locked for it."""
        return self if device is None or torch.device(device).type == "xla" else original(self, device)

    return pin_memory


def _deepcopy(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    @functools.wraps(original)
    def __deepcopy__(self: torch.Tensor, memo: dict[Any, Any]) -> torch.Tensor:
        known = id(self) in memo
        copied = original(self, memo)
        # Torch clones tensors of a device with this name one by one: here those of one storage share its copy.
        plain = type(self) is torch.Tensor and not self.is_conj() and not self.is_neg()
        if plain and self.device.type == "xla" and not known:
            storages = memo.setdefault("torch", {})
            key = self.untyped_storage()._cdata
            if key not in storages and native().fast.is_full(self):
                storages[key] = copied.untyped_storage()  # of the dtype and the sharding of the original
            storage = copy.deepcopy(self.untyped_storage(), memo)
            with torch.no_grad():
                copied.set_(storage, self.storage_offset(), self.size(), self.stride())
        return copied

    return __deepcopy__


def add_methods() -> None:
    """Give tensors and modules what torch gives them for a device; torch's own way refuses the name."""
    tensor: Any = torch.Tensor
    tensor.is_xla = property(lambda self: self.device.type == "xla")
    tensor.xla = _tensor_xla
    tensor._wrapped_number = native().fast.wrapped_number()
    tensor.pin_memory = _pin_memory(tensor.pin_memory)
    tensor.__deepcopy__ = _deepcopy(tensor.__deepcopy__)
    torch.nn.Module.xla = _module_xla  # type: ignore[attr-defined]
    torch.nn.utils.rnn.PackedSequence.xla = _packed_xla  # type: ignore[attr-defined]


# ---- behaviour of torch ----


def _follow_default_dtype() -> None:
    original = torch.set_default_dtype

    def follow(dtype: torch.dtype) -> None:
        number = scalar_type(dtype)
        native().set_default_dtype(number)
        native().fast.set_default_type(number)

    def set_default_dtype(d: torch.dtype, /) -> None:
        original(d)
        follow(d)

    set_default_dtype.__doc__ = original.__doc__
    torch.set_default_dtype = set_default_dtype
    if torch.get_default_dtype() != torch.float32:
        follow(torch.get_default_dtype())


def _follow_matmul_precision() -> None:
    original = torch.set_float32_matmul_precision
    names = {"highest": "highest", "high": "high", "medium": "default"}

    def set_float32_matmul_precision(precision: str) -> None:
        original(precision)
        native().set_precision(names[precision])

    set_float32_matmul_precision.__doc__ = original.__doc__
    torch.set_float32_matmul_precision = set_float32_matmul_precision


def _serve_accelerator() -> None:
    """torch.accelerator asks the C++ guard, which knows neither our devices nor how to wait for them."""
    accelerator = torch.accelerator

    def synchronize(device: Any = None, /) -> None:
        """Wait for a device."""
        xla_module.synchronize(None if device is None else torch.device(device) if isinstance(device, str) else device)

    accelerator.synchronize = synchronize
    accelerator.device_count = xla_module.device_count
    accelerator.current_device_index = xla_module.current_device
    accelerator.set_device_index = xla_module.set_device


def _single_threaded_backward() -> None:
    """Run backward passes in the thread that calls them.

    Torch would start a thread per device, and hand the GIL to and fro for every op; and it would not start
    one for xla:1, as the guard that Python can register counts one device. The setting belongs to a thread,
    so new threads get it too.
    """
    torch.autograd.set_multithreading_enabled(False)
    start = threading.Thread.start

    def start_single_threaded(self: threading.Thread) -> None:
        run = self.run

        def first() -> None:
            del self.run  # the class's own again
            torch.autograd.set_multithreading_enabled(False)
            run()

        if "run" not in self.__dict__:
            self.run = first  # type: ignore[method-assign]
        start(self)

    start_single_threaded.__doc__ = start.__doc__
    threading.Thread.start = start_single_threaded  # type: ignore[method-assign]


def _keep_parameters() -> None:
    """Let modules keep their parameters, and ties between them, on the way to and from the device.

    Torch would make new ones, as it cannot exchange the data of two tensor types. It can swap whole tensors,
    by a setting that is turned on for such moves only: elsewhere it refuses what works without.
    """
    future = torch.__future__

    def moves(module: torch.nn.Module, device: torch.device | None) -> bool:
        if device is None:
            return False
        return any((p.device.type == "xla") != (device.type == "xla") for p in module.parameters())

    def detach(module: torch.nn.Module) -> None:
        """Let go of the parameters: what torch.nn.utils.weight_norm has computed of them holds them by its graph."""
        for m in module.modules():
            for name, value in vars(m).items():
                if isinstance(value, torch.Tensor) and value.grad_fn is not None:
                    vars(m)[name] = value.detach()

    def swapping(original: Callable[..., Any], target: Callable[..., torch.device | None]) -> Callable[..., Any]:
        @functools.wraps(original)
        def method(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            if future.get_swap_module_params_on_conversion() or not moves(self, target(*args, **kwargs)):
                return original(self, *args, **kwargs)
            detach(self)
            lazy = {p: type(p) for p in self.parameters() if torch.nn.parameter.is_lazy(p)}
            future.set_swap_module_params_on_conversion(True)
            try:
                return original(self, *args, **kwargs)
            finally:
                future.set_swap_module_params_on_conversion(False)
                for p, kind in lazy.items():
                    p.__class__ = kind

        return method

    def to_target(*args: Any, **kwargs: Any) -> torch.device | None:
        return torch._C._nn._parse_to(*args, **kwargs)[0]

    def to_empty_target(*, device: Any, recurse: bool = True) -> torch.device | None:
        return None if device is None else _device_of(device)

    module: Any = torch.nn.Module
    module.to = swapping(module.to, to_target)
    module.cpu = swapping(module.cpu, lambda: torch.device("cpu"))
    module.to_empty = swapping(module.to_empty, to_empty_target)


def adjust_torch() -> None:
    """Set what torch decides per process so that the device works as others do."""
    _keep_parameters()
    _single_threaded_backward()
    _follow_default_dtype()
    _follow_matmul_precision()
    _serve_accelerator()
