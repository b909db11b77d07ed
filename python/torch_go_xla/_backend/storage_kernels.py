"""Kernels that are not a row: factories without a value, storages, transfers, scalars.

They are Python functions with the signatures of their ATen overloads.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import transfer
from .core import device_index, native
from .errors import NotLoweredError
from .storage import new_storage, resize_storage
from .transfer import contiguous_strides, new_tensor, storage_bytes

_aten = torch.ops.aten
_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)

Kernel = Callable[..., Any]


# ---- factories ----


def _strides_for(sizes: Sequence[int], memory_format: torch.memory_format | None) -> tuple[int, ...] | None:
    """Return the strides of a dense tensor in a memory format; None for contiguous ones."""
    if memory_format in (None, torch.contiguous_format):
        return None
    if memory_format == torch.preserve_format:
        raise RuntimeError("preserve_format is only possible where there is a tensor to preserve the format of")
    rank = 4 if memory_format == torch.channels_last else 5
    if len(sizes) != rank:
        raise RuntimeError(f"required rank {rank} tensor to use {str(memory_format).removeprefix('torch.')} format")
    order = (0, *range(2, rank), 1)
    dense = contiguous_strides([sizes[i] for i in order])
    strides = [0] * rank
    for i, stride in zip(order, dense, strict=True):
        strides[i] = stride
    return tuple(strides)


def _check_factory(sizes: Sequence[int], layout: Any, pin_memory: bool | None) -> None:
    if any(n < 0 for n in sizes):
        bad = next(n for n in sizes if n < 0)
        raise RuntimeError(f"Trying to create tensor with negative dimension {bad}: {list(sizes)}")
    if layout not in (None, torch.strided):
        raise NotImplementedError(f"xla tensors are strided; {layout} is not supported")
    if pin_memory:
        raise RuntimeError("Only dense CPU tensors can be pinned")


def _fills() -> bool:
    """Return whether memory without a value is filled, as torch.use_deterministic_algorithms says."""
    return torch.are_deterministic_algorithms_enabled() and torch._C._get_deterministic_fill_uninitialized_memory()


def _filled(tensor: torch.Tensor) -> torch.Tensor:
    """Fill a tensor that has no value yet, where that is asked for: with NaN, True or the greatest integer."""
    if _fills() and tensor.numel():
        kind = tensor.dtype
        number: Any = math.nan if kind.is_floating_point or kind.is_complex else True
        tensor.fill_(number if number is not True or kind == torch.bool else torch.iinfo(kind).max)
    return tensor


def empty(
    size: Sequence[int],
    *,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool | None = None,
    memory_format: torch.memory_format | None = None,
) -> torch.Tensor:
    """empty.memory_format."""
    _check_factory(size, layout, pin_memory)
    strides = _strides_for(size, memory_format)
    return _filled(new_tensor(size, dtype or torch.get_default_dtype(), device_index(device), strides))


def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool | None = None,
) -> torch.Tensor:
    """empty_strided."""
    _check_factory(size, layout, pin_memory)
    if len(size) != len(stride):
        raise RuntimeError(
            f"dimensionality of sizes ({len(size)}) must match dimensionality of strides ({len(stride)})"
        )
    if any(s < 0 for s in stride):
        raise RuntimeError(f"empty_strided: negative strides are not supported, got {list(stride)}")
    return _filled(new_tensor(size, dtype or torch.get_default_dtype(), device_index(device), tuple(stride)))


def _efficientzerotensor(
    size: Sequence[int], *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None
) -> torch.Tensor:
    return torch.zeros(size, dtype=dtype, device=device)


# ---- copies ----


def _lazy_clone(self: torch.Tensor) -> torch.Tensor:
    """Clone: a clone shares the value of its source until one of them is written to."""
    return self.clone()


def _copy_from(source: torch.Tensor, to: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    return transfer.copy(source, to)


def _to_copy(self: torch.Tensor, *, non_blocking: bool = False, device: Any = None, **kwargs: Any) -> torch.Tensor:
    # The key reaches torch's composite kernel, which would allocate pinned memory for a copy to
    # the host that does not block: there is none.
    wait = device is not None and device.type == "cpu"
    return _aten._to_copy.default.redispatch(  # type: ignore[no-any-return]
        _CPU, self, device=device, non_blocking=non_blocking and not wait, **kwargs
    )


def _copy_from_and_resize(source: torch.Tensor, to: torch.Tensor) -> torch.Tensor:
    if to.shape != source.shape:
        to.resize_(source.shape)
    return transfer.copy(source, to)


def _local_scalar_dense(tensor: torch.Tensor) -> Any:
    value = native().fast.item(tensor)
    if value is not NotImplemented:
        return value
    if tensor.numel() != 1:
        raise RuntimeError(f"a Tensor with {tensor.numel()} elements cannot be converted to Scalar")
    return transfer.to_host(tensor).item()


def equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Tell whether two tensors have the same shape and values; computes what is recorded."""
    if a.device != b.device:
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, {a.device} and {b.device}!"
        )
    if a.dtype != b.dtype:
        raise RuntimeError(f"Expected object of data type {a.dtype} but got data type {b.dtype} for argument 'other'")
    if a.shape != b.shape:
        return False
    return a.numel() == 0 or bool(_aten.all(_aten.eq.Tensor(a, b)).item())


# ---- sizes and storages ----


def _set(tensor: torch.Tensor, storage: torch.UntypedStorage, offset: int, sizes: Any, strides: Any) -> torch.Tensor:
    # Torch's CPU kernel only changes the tensor's metadata.
    return _aten.set_.source_Storage_storage_offset.redispatch(_CPU, tensor, storage, offset, sizes, strides)  # type: ignore[no-any-return]


def resize_(
    self: torch.Tensor, size: Sequence[int], *, memory_format: torch.memory_format | None = None
) -> torch.Tensor:
    """resize_: the storage grows if it must, and keeps what it holds."""
    if any(n < 0 for n in size):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(size)}: {list(size)}")
    if memory_format == torch.preserve_format:
        raise RuntimeError("Unsupported memory format Preserve")
    if memory_format is None and self.shape == tuple(size):
        return self  # with the strides that it has
    storage = self.untyped_storage()
    elements = math.prod(size)
    offset = int(self.storage_offset())
    needed = storage_bytes(offset + elements, self.dtype, size) if elements else 0
    old = storage.nbytes() // self.element_size()
    if needed > storage.nbytes():
        resize_storage(storage, needed)
        if _fills():
            _filled(_set(self.detach(), storage, old, (storage.nbytes() // self.element_size() - old,), (1,)))
    strides = _strides_for(size, memory_format) or contiguous_strides(size)
    return _set(self, storage, offset, size, strides)


def _set_storage(self: torch.Tensor, source: torch.UntypedStorage) -> torch.Tensor:
    elements = source.nbytes() // self.element_size()
    return _set(self, source, 0, (elements,), (1,))


def _set_storage_offset(
    self: torch.Tensor,
    source: torch.UntypedStorage,
    storage_offset: int,
    size: Sequence[int],
    stride: Sequence[int] = (),
) -> torch.Tensor:
    return _set(self, source, storage_offset, size, stride)


def _set_nothing(self: torch.Tensor) -> torch.Tensor:
    return _set(self, new_storage(0, self.device), 0, (0,), (1,))


def resize_out(
    tensor: torch.Tensor, sizes: tuple[int, ...], quiet: bool = False, strides: tuple[int, ...] | None = None
) -> None:
    """Resize an ``out=`` argument to its result, with torch's warning unless ``quiet``; row by row without strides."""
    if tensor.numel() != 0 and not quiet:
        warnings.warn(
            f"An output with one or more elements was resized since it had shape {list(tensor.shape)}, which does not "
            f"match the required output shape {list(sizes)}. This behavior is deprecated, and in a future PyTorch "
            "release outputs will not be resized unless they have zero elements. You can explicitly reuse an out "
            "tensor t by resizing it, inplace, to zero elements with t.resize_(0).",
            UserWarning,
            stacklevel=2,
        )
    tensor.resize_(sizes)
    if strides is not None:
        tensor.as_strided_(sizes, strides)


# ---- values that are looked at, and layouts that xla has not ----


def _assert_async(
    self: torch.Tensor, assert_msg: str = "Expected Tensor with single nonzero value, but got zero"
) -> None:
    if not self:
        raise RuntimeError(assert_msg)


def _left_aligned(t: torch.Tensor, mask: torch.Tensor) -> bool:
    """Say no: TransformerEncoder would make a nested tensor of a mask that is a length for each row."""
    return False


def absent(kind: str) -> Kernel:
    """Return the kernel of every op for a kind of tensors that there is not."""

    def kernel(op: Any, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{op}: there are no {kind} tensors on xla")

    return kernel


def not_for_sparse(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Refuse an op that has no kernel for sparse tensors."""
    raise NotLoweredError(f"{op} is not supported for sparse tensors on xla; use their to_dense(), or their cpu()")


# What makes nested tensors of layout torch.strided.
_STRIDED_NESTED = (
    "_nested_tensor_from_tensor_list",
    "_nested_tensor_from_mask",
    "_nested_from_padded",
    "_nested_view_from_buffer",
    "_nested_view_from_buffer_copy",
)


def _strided_nested(*args: Any, **kwargs: Any) -> Any:
    """Refuse to make one: torch asks it for its sizes where no exception may pass, which would end the process."""
    raise NotImplementedError("nested tensors of layout torch.strided are not supported on xla; use torch.jagged")


# A list of the CPU's tensors becomes a nested tensor of xla behind the dispatcher. Torch asks it for these where no
# exception may pass: they are tensors of the CPU whatever the device is.
_NESTED_METADATA = ("_nested_tensor_size", "_nested_tensor_strides", "_nested_tensor_storage_offsets")


def nested_metadata() -> dict[str, Kernel]:
    """Return the kernels that read how a nested tensor lies in its buffer."""
    key = torch._C.DispatchKeySet(torch._C.DispatchKey.NestedTensorCPU)

    def read(op: Any) -> Kernel:
        return lambda self: op.redispatch(key, self)

    return {name: read(getattr(_aten, name).default) for name in _NESTED_METADATA}


# ---- what torch's CPU kernels do right for any device: they touch metadata only ----

_METADATA = (
    "unfold",
    "view_as_real",
    "view_as_complex",
    "set_.source_Tensor",
    "is_set_to",
)


def _metadata(name: str) -> Kernel:
    base, _, overload = name.partition(".")
    op = getattr(getattr(_aten, base), overload or "default")

    def kernel(*args: Any, **kwargs: Any) -> Any:
        return op.redispatch(_CPU, *args, **kwargs)

    return kernel


# ---- ops under another name ----


def _convolution(*args: Any) -> Any:
    return _aten.convolution.default(*args)


def _convolution_backward(
    grad: torch.Tensor,
    input: torch.Tensor,
    weight: torch.Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    output_mask: Sequence[bool],
) -> Any:
    channels = weight.shape[1] * groups if transposed else weight.shape[0]
    return _aten.convolution_backward.default(
        grad, input, weight, [channels] if output_mask[2] else None,
        stride, padding, dilation, transposed, output_padding, groups, output_mask,
    )  # fmt: skip


def _record_stream(self: torch.Tensor, s: Any) -> None:
    """Do nothing: the core frees memory when the programs that use it have run."""


def kernels() -> dict[str, Kernel]:
    """Return the kernels by overload."""
    return {
        # These two come back to `empty` and `empty_strided` with what is not plain.
        "empty.memory_format": native().fast.empty,
        "empty_strided": native().fast.empty_strided,
        "_efficientzerotensor": _efficientzerotensor,
        "_lazy_clone": _lazy_clone,
        "_to_copy": _to_copy,
        "_copy_from": _copy_from,
        "_copy_from_and_resize": _copy_from_and_resize,
        "_local_scalar_dense": _local_scalar_dense,
        "equal": equal,
        "resize_": resize_,
        "set_.source_Storage": _set_storage,
        "set_.source_Storage_storage_offset": _set_storage_offset,
        "set_": _set_nothing,
        "record_stream": _record_stream,
        "_assert_async": _assert_async,
        "_assert_async.msg": _assert_async,
        "_nested_tensor_from_mask_left_aligned": _left_aligned,
        **dict.fromkeys(_STRIDED_NESTED, _strided_nested),
        "convolution_overrideable": _convolution,
        "convolution_backward_overrideable": _convolution_backward,
        **{name: _metadata(name) for name in _METADATA},
    }
