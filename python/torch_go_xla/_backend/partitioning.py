"""SPMD: one program on all devices, and where the values of tensors lie on them.

A tensor has one value, the global one. Its *sharding*, a text in GSPMD's form, says what each device holds of it::

    {replicated}                       every device holds all of it
    {devices=[2,4]<=[8]}               2 x 4 tiles, one a device
    {devices=[2,1,4]<=[8] last_tile_dim_replicate}   2 tiles, each on 4 devices
    {manual}                         every device holds a value of its own
    {manual devices=[4,2]0,4,1,5,2,6,3,7}   4 values, each divided between 2 devices as XLA likes

XLA partitions the programs and inserts what communication they need; results whose sharding no one states get the one
that the compiler finds best. This module is what `torch_go_xla.distributed` builds on.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.utils._pytree import tree_leaves

from .core import is_xla, native, scalar_type
from .transfer import resolved

_ops: Any = torch.ops.torch_go_xla


@dataclass(frozen=True)
class Shard:
    """What one device holds of a tensor."""

    device: int  # its number among `num_devices`
    index: tuple[slice, ...]  # the part of the global tensor
    replica_id: int  # numbers the devices that hold the same part
    data: torch.Tensor  # on the CPU; smaller than the other shards, or empty, where the sizes do not divide


def use_spmd() -> None:
    """Start SPMD, as `torch_go_xla.runtime.use_spmd` says."""
    native().use_spmd()
    native().fast.set_current_device(0)
    os.environ["XLA_USE_SPMD"] = "1"


def is_spmd() -> bool:
    """Tell whether `use_spmd` was called."""
    return native().partitions() > 0


def num_devices() -> int:
    """Return the number of devices: of the process, with SPMD of all processes."""
    return native().partitions() or native().device_count()


# ---- annotations ----


class _Annotate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, t: torch.Tensor, sharding: str, open: bool) -> torch.Tensor:
        return _ops.annotate(t, sharding, open)  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0], None, None


def annotate(t: torch.Tensor, sharding: str, open: bool = False) -> torch.Tensor:
    """Return the value of a tensor with a sharding; gradients pass through.

    ``open``: XLA may divide the value further, between the devices that hold the same part.
    ValueError for a sharding that cannot be read, names more or fewer devices than there are, or has another number of
    dimensions; RuntimeError without SPMD.
    """
    return _Annotate.apply(_checked(t), sharding, open)  # type: ignore[no-any-return]


def annotate_(t: torch.Tensor, sharding: str) -> None:
    """Give a tensor's value a sharding, in place, which its later values have too.

    What is on the devices is laid out again at once. Of a view of a part of its storage, only the present value is
    annotated. Errors are those of `annotate`.
    """
    t = _checked(t).detach()
    core = native()
    if core.fast.is_full(t):
        core.annotate(core.fast.handle(t), scalar_type(t.dtype), tuple(t.shape), sharding)
    else:
        t.copy_(_ops.annotate(t, sharding))


def clear_(t: torch.Tensor) -> None:
    """Take the sharding of a tensor away: its value is on every device, its later values are as the compiler likes."""
    t = _checked(t).detach()
    core = native()
    if core.fast.is_full(t):
        core.annotate(core.fast.handle(t), scalar_type(t.dtype), tuple(t.shape), "")


def sharding_of(t: torch.Tensor) -> str:
    """Return the sharding of a tensor: the one it was given, after a sync the real one; "" where there is none.

    A value that is on every device without a sharding that says so counts as not sharded; so does a view of a part, or
    with other sizes than the value had when it was sharded.
    """
    state = _state(_checked(t))
    return "" if state is None else str(state.get("sharding", ""))


def _state(t: torch.Tensor) -> dict[str, Any] | None:
    """Return the state of a tensor's storage if the tensor is its value as it stands, None for any other view."""
    core = native()
    if not core.fast.is_full(t):
        return None
    state = core.describe(core.fast.handle(t))
    return state if state.get("dims", list(t.shape)) == list(t.shape) else None


# ---- shards ----


def _held(handle: int, wait: bool = True) -> list[dict[str, Any]]:
    """Return what each device of this process holds of a storage; with ``wait`` its value is computed first."""
    if wait:
        native().ready(handle)
    return native().shards(handle)


def shards(t: torch.Tensor) -> list[Shard]:
    """Return what each device of this process holds of a tensor, after a sync; RuntimeError without SPMD."""
    t = dense(t)
    core = native()
    handle = core.fast.handle(t)
    result = []
    for s in _held(handle):
        data = torch.empty(s["size"], dtype=t.dtype)
        if data.numel():
            core.fetch_shard(handle, s["device"], data.data_ptr())
        result.append(Shard(s["device"], _index(s), s["replica"], data))
    return result


def dense(t: torch.Tensor) -> torch.Tensor:
    """Return a tensor that is all of its storage, as it stands: the same tensor, or a copy of a view."""
    t = resolved(_checked(t))
    return t if _state(t.detach()) is not None else t.clone(memory_format=torch.contiguous_format)


def _index(shard: dict[str, Any]) -> tuple[slice, ...]:
    return tuple(slice(a, a + n) for a, n in zip(shard["start"], shard["size"], strict=True))


def regions(t: torch.Tensor, wait: bool = False) -> list[tuple[slice, ...]]:
    """Return the part of a tensor that each device of this process holds; with ``wait`` its value is computed first.

    Without, there is no sync if the tensor is marked with a sharding. A view must be made `dense` before.
    """
    return [_index(s) for s in _held(native().fast.handle(_checked(t).detach()), wait)]


def bytes_held(t: torch.Tensor) -> list[int]:
    """Return how many bytes of a tensor's storage each device of this process holds; see `shards`."""
    t = resolved(_checked(t).detach())
    return [math.prod(s["size"]) * t.element_size() for s in _held(native().fast.handle(t))]


def set_shards_(t: torch.Tensor, local: Sequence[torch.Tensor]) -> None:
    """Replace what each device of this process holds of a tensor, which keeps its sharding; each is sent its shard.

    ValueError if there is not one shard a device, or one has other sizes than `shards` gives.
    """
    t = _checked(t).detach()
    core = native()
    if _state(t) is None:
        raise RuntimeError("set_shards_ needs a tensor that is all of its storage, and no view of it with other sizes")
    handle = core.fast.handle(t)
    found = _held(handle)
    if len(local) != len(found):
        raise ValueError(f"{len(local)} shards for {len(found)} devices")
    held = [x.detach().to(device="cpu", dtype=t.dtype).contiguous() for x in local]
    for s, x in zip(found, held, strict=True):
        if list(x.shape) != list(s["size"]):
            raise ValueError(f"device {s['device']} holds a shard of sizes {s['size']}, not {list(x.shape)}")
    core.set_shards(handle, [x.data_ptr() for x in held])


# ---- local values ----
#
# A manual tensor has a value of its own on each device, and the sizes of that. What is computed of one is one too;
# other tensors that take part have the same value on every device. Reading a manual tensor gives device 0's value.
#
# With `manual`, a manual sharding of groups of devices, there is a value for each group. How its devices divide it is
# up to XLA, as for tensors that are not manual. Among such values, `all_reduce` is the only collective. Values of
# different groups do not meet: RuntimeError at the sync.

PER_DEVICE = "{manual}"


def full_to_shard(t: torch.Tensor, sharding: str, manual: str = PER_DEVICE) -> torch.Tensor:
    """Return a manual tensor whose value on each device is the part of t that the device holds with a sharding.

    ValueError if the sharding does not divide the sizes into equal parts, or gives the devices of a group different
    parts. ValueError if t is manual.
    """
    return _ops.full_to_shard(_checked(t), sharding, manual)  # type: ignore[no-any-return]


def shard_to_full(t: torch.Tensor, sharding: str, size: Sequence[int], manual: str = PER_DEVICE) -> torch.Tensor:
    """Return the tensor of some sizes whose parts, with a sharding, are the values of t on the devices.

    A tensor that is not manual stands for the same part on every device. Where several devices hold the same part,
    their values must agree. ValueError if the sizes of t are not those of the parts, or if the sharding gives the
    devices of a group different parts.
    """
    return _ops.shard_to_full(_checked(t), sharding, tuple(size), manual)  # type: ignore[no-any-return]


def is_traced(t: torch.Tensor) -> bool:
    """Tell whether a tensor has no value, as torch.compile is reading the code that computes with it."""
    return isinstance(t, (FakeTensor, FunctionalTensor))


def is_manual(t: torch.Tensor) -> bool:
    """Tell whether a tensor has a value of its own on each device; of a traced one that is not known: False."""
    core = native()
    if not is_xla(t) or is_traced(t):
        return False
    return str(core.describe(core.fast.handle(t)).get("sharding", "")).startswith("{manual")


def any_manual(tree: Any) -> bool:
    """Tell whether there is a manual tensor in nested arguments."""
    return is_spmd() and any(isinstance(x, torch.Tensor) and is_manual(x) for x in tree_leaves(tree))


# ---- collectives on local values ----
#
# `groups` lists the devices that exchange values with each other, every device in one of the groups, all groups of one
# size. `op` is sum, avg, product, min, max, or of integers and bools band, bor or bxor. Results are manual tensors.
# ValueError for groups or an op that cannot be; RuntimeError for a type that an op is not for, and for sizes that do
# not divide.


def _flat(groups: Sequence[Sequence[int]]) -> tuple[list[int], int]:
    size = len(groups[0]) if groups else 0
    if any(len(g) != size for g in groups):
        raise ValueError(f"groups of one size are needed, got {[list(g) for g in groups]}")
    return [d for g in groups for d in g], size


def all_reduce(t: torch.Tensor, op: str, groups: Sequence[Sequence[int]]) -> torch.Tensor:
    """Return on each device the values of its group, folded."""
    return _ops.all_reduce(_checked(t), op, *_flat(groups))  # type: ignore[no-any-return]


def all_gather(t: torch.Tensor, dim: int, groups: Sequence[Sequence[int]]) -> torch.Tensor:
    """Return on each device the values of its group, one after the other along a dimension."""
    return _ops.all_gather(_checked(t), dim, *_flat(groups))  # type: ignore[no-any-return]


def reduce_scatter(t: torch.Tensor, op: str, dim: int, groups: Sequence[Sequence[int]]) -> torch.Tensor:
    """Return on each device its part, along a dimension, of the values of its group folded."""
    return _ops.reduce_scatter(_checked(t), op, dim, *_flat(groups))  # type: ignore[no-any-return]


def all_to_all(t: torch.Tensor, split_dim: int, concat_dim: int, groups: Sequence[Sequence[int]]) -> torch.Tensor:
    """Return on each device the parts along split_dim that its group has for it, joined along concat_dim."""
    return _ops.all_to_all(_checked(t), split_dim, concat_dim, *_flat(groups))  # type: ignore[no-any-return]


def collective_permute(t: torch.Tensor, pairs: Sequence[tuple[int, int]]) -> torch.Tensor:
    """Return on the second device of each pair the value of the first; zeros on a device that is the second of none."""
    return _ops.collective_permute(_checked(t), [d for pair in pairs for d in pair])  # type: ignore[no-any-return]


def partition_id(like: torch.Tensor) -> torch.Tensor:
    """Return on each device its number, a 0-dim int64 tensor."""
    return _ops.partition_id(_checked(like))  # type: ignore[no-any-return]


def _checked(t: torch.Tensor) -> torch.Tensor:
    if not is_xla(t):
        raise RuntimeError(f"expected an xla tensor, got one on {t.device}")
    return t
