"""Methods of Tensor and functions of torch that lead to one kernel: where nothing but the kernel would act, they
call it without torch's dispatcher. See gocore/pyfast/shortcut.c for when that is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch.autograd import forward_ad

from .core import native

# Ops of one tensor, with their own name as method, function and overload.
_UNARY = (
    "relu", "neg", "exp", "log", "sqrt", "rsqrt", "abs", "sigmoid", "tanh", "sin", "cos", "reciprocal",
    "relu_", "neg_", "exp_", "sqrt_", "zero_",
)  # fmt: skip

# Ops of a tensor and a tensor or number, and their operators.
_ARITHMETIC = {
    "add": ("__add__", "__radd__"),
    "sub": ("__sub__",),
    "mul": ("__mul__", "__rmul__"),
    "div": ("__truediv__",),
    "add_": ("__iadd__",),
    "sub_": ("__isub__",),
    "mul_": ("__imul__",),
    "div_": ("__idiv__",),
}

# Ops of a tensor and a tensor, or of a tensor and a number.
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")

# Ops of two tensors, the number of their dimensions or -1 for any, and their operators.
_BINARY: dict[str, tuple[str, int, tuple[str, ...]]] = {
    "maximum": ("maximum", -1, ()),
    "minimum": ("minimum", -1, ()),
    "mm": ("mm", 2, ()),
    "bmm": ("bmm", 3, ()),
    "matmul": ("mm", 2, ("__matmul__",)),
}


def _targets(name: str, operators: Iterable[str]) -> Iterator[Any]:
    """Yield torch's function and method objects of these names."""
    methods = vars(torch._C.TensorBase)
    for method in (name, *operators):
        if method in methods:
            yield methods[method]
    if hasattr(torch, name):
        yield getattr(torch, name)


def _shortcuts() -> Iterator[tuple[Any, str, str | None, int, int]]:
    """Yield torch's object, the overload for it, the one where the last operand is a number, operands, dimensions."""
    for name in _UNARY:
        for target in _targets(name, ()):
            yield target, name, None, 1, -1
    for name, operators in _ARITHMETIC.items():
        for target in _targets(name, operators):
            yield target, f"{name}.Tensor", f"{name}.Tensor", 2, -1
    for name in _COMPARISONS:
        for target in _targets(name, (f"__{name}__",)):
            yield target, f"{name}.Tensor", f"{name}.Scalar", 2, -1
    for name, (overload, rank, operators) in _BINARY.items():
        for target in _targets(name, operators):
            yield target, overload, None, 2, rank


def _keys(tensor: torch.Tensor) -> tuple[int, int]:
    library: Any = torch._C
    return tensor._cdata, library._dispatch_keys(tensor).raw_repr()


def _setup(fast: Any) -> bool:
    """Show the kernels' side what it has to tell apart; False if this torch keeps it elsewhere."""
    library: Any = torch._C
    plain = fast.new_tensor(1 << 62, 6, 0, (1,))  # a storage that the core does not know, and nobody reads
    host = torch.zeros(1)
    samples = [host, plain, torch._neg_view(host), torch._neg_view(plain), torch.zeros(1, dtype=torch.complex64).conj()]
    return bool(
        fast.probe_tensor(plain, plain._cdata)
        and fast.setup_shortcuts(
            types=(torch.Tensor, torch.nn.Parameter),
            plain=_keys(plain)[1],
            host=_keys(host)[1],
            samples=[_keys(t) for t in samples],
            increment_version=library._increment_version,
            forward_ad=vars(forward_ad),
        )
    )


def install(kernels: Mapping[str, Any]) -> bool:
    """Install the shortcuts to these kernels, by overload; return whether this torch has a place for them."""
    fast = native().fast
    if not _setup(fast):
        return False
    methods = vars(torch._C.TensorBase)
    fast.add_shortcut(methods["item"], fast.item, None, 1, -1)
    fast.add_shortcut(methods["to"], fast.to, None, 2, -1)
    for target, overload, for_number, operands, rank in _shortcuts():
        kernel, number_kernel = kernels.get(overload), kernels.get(for_number or "")
        if kernel is not None:
            fast.add_shortcut(target, kernel, number_kernel, operands, rank)
    return True
