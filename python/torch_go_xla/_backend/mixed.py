"""What a kernel does with operands that are not plain tensors of its device.

The C kernels call `fall_back` in their place in four cases. An operand is on another device, or the device
argument names one. A generator is given. Or torch has marked an operand as lazily conjugated or negated,
which the kernel has to honour.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_map

from . import expanded, fallback, transfer
from .core import device_index, is_xla
from .kernels import UNSIZED

_aten = torch.ops.aten


@functools.cache
def _takes_indices(name: str) -> bool:
    """Return whether an op has a list of indices, which may be on the CPU, as they may for a CUDA tensor."""
    return any(str(a.type) == "List[Optional[Tensor]]" for a in fallback.overload(name)._schema.arguments)


def _tensors(x: Any) -> Iterator[torch.Tensor]:
    if isinstance(x, torch.Tensor):
        yield x
    elif isinstance(x, (list, tuple)):
        for item in x:
            yield from _tensors(item)
    elif isinstance(x, dict):
        for item in x.values():
            yield from _tensors(item)


def _is_number(t: torch.Tensor) -> bool:
    return t.dim() == 0 and t.device.type == "cpu"


def _is_lazy(t: torch.Tensor) -> bool:
    return t.is_conj() or t.is_neg()


def _copy_(args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    return transfer.copy(args[1], args[0])


def _foreach_copy_(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    for to, source in zip(args[0], args[1], strict=True):
        to.copy_(source)


def _clone(args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    return _aten.clone(transfer.resolved(args[0]), **kwargs)  # type: ignore[no-any-return]


# Not a field of the rows: only these copies may have operands on two devices, and it is Python that moves them.
_BETWEEN_DEVICES: dict[str, Callable[[tuple[Any, ...], dict[str, Any]], Any]] = {
    "copy_": _copy_,
    "_foreach_copy_": _foreach_copy_,
    "clone": _clone,
}


def _like_elsewhere(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Make a tensor like an xla tensor on another device: just the metadata of the operand counts."""
    like = args[0]
    stand_in = torch.empty_strided(like.size(), like.stride(), dtype=like.dtype, device=kwargs["device"])
    return op(stand_in, *args[1:], **kwargs)


def _normal(device: Any) -> torch.device:
    device = torch.device(device)
    return torch.device("xla", device_index(device)) if device.type == "xla" else device


def _on_one_device(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    found: list[str] = []
    for t in _tensors((args, kwargs)):
        if str(t.device) not in found and not _is_number(t):
            found.append(str(t.device))
    found.sort(key=lambda d: not d.startswith("xla"))
    if len(found) > 1:
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, {found[0]} and {found[1]}!"
        )
    raise RuntimeError(f"aten::{name}: expected tensors and a device on xla, found {', '.join(found) or kwargs}")


def _by_positions(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Index by positions in place of masks: where the ones are is known on the host only."""
    indices: list[torch.Tensor | None] = []
    for i in args[1]:
        if i is not None and i.dtype == torch.bool:
            _check_mask(i, args[0], len(indices))
            indices.extend(_aten.nonzero(i).unbind(1))
        else:
            indices.append(i)
    return kernel(args[0], indices, *args[2:], **kwargs)


def _as_mask(index: torch.Tensor | None) -> torch.Tensor | None:
    """Return an index, a mask of bytes as one of bools."""
    if index is None or index.dtype != torch.uint8:
        return index
    warnings.warn(
        "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.",
        UserWarning,
        stacklevel=fallback.user_level(),
    )
    return index != 0


def _check_mask(mask: torch.Tensor, indexed: torch.Tensor, at: int) -> None:
    sizes = list(indexed.shape[at : at + mask.dim()])
    for i, (have, want) in enumerate(zip(mask.shape, sizes, strict=False)):
        if have != want:
            raise IndexError(
                f"The shape of the mask {list(mask.shape)} at index {i} does not match "
                f"the shape of the indexed tensor {list(indexed.shape)} at index {at + i}"
            )
    if len(sizes) < mask.dim():
        raise IndexError(f"too many indices for tensor of dimension {indexed.dim()}")


def fall_back(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any], why: NotImplementedError | None) -> Any:
    """Run an op that its kernel cannot record; why is the core's error if it has no lowering for this use."""
    name: str = kernel.name
    if why is not None:
        if _takes_indices(name) and any(i is not None and i.dtype == torch.uint8 for i in args[1]):
            return kernel(args[0], [_as_mask(i) for i in args[1]], *args[2:], **kwargs)
        base = name.partition(".")[0]
        if base in expanded.OPS and expanded.is_expanded(args[0]):
            return expanded.write(base, args, fallback.user_level())
        if _takes_indices(name) and any(i is not None and i.dtype == torch.bool for i in args[1]):
            return _by_positions(kernel, args, kwargs)
        if name in UNSIZED:
            return UNSIZED[name](*args, **kwargs)
        return fallback.fallback(fallback.overload(name), *args, **kwargs)
    if name in _BETWEEN_DEVICES:
        return _BETWEEN_DEVICES[name](args, kwargs)
    if any(is_xla(t) and _is_lazy(t) for t in _tensors((args, kwargs))):

        def resolve(x: Any) -> Any:
            return transfer.resolved(x) if is_xla(x) else x

        return kernel(*tree_map(resolve, args), **tree_map(resolve, kwargs))
    if any(isinstance(x, torch.Generator) for x in (*args, *kwargs.values())):
        return fallback.on_cpu(fallback.overload(name), args, kwargs)
    device = kwargs.get("device")
    if device is not None and args and is_xla(args[0]) and _normal(device) != args[0].device:
        return _like_elsewhere(fallback.overload(name), args, kwargs)
    if _takes_indices(name) and is_xla(args[0]) and all(is_xla(v) or _is_number(v) for v in args[2:3]):
        indices = [i if i is None or is_xla(i) else transfer.move(i, args[0].device) for i in args[1]]
        return kernel(args[0], indices, *args[2:], **kwargs)
    return _on_one_device(name, args, kwargs)
