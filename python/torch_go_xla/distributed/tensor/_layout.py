"""Placements as XLA shardings."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor.placement_types import Partial, Placement, Shard, _StridedShard
from torch.utils._python_dispatch import _disable_current_modes

from ..._backend import partitioning
from ._mesh import parallel_ranks

REPLICATED = "{replicated}"


def shard_dim(placement: Placement) -> int | None:
    """Return the tensor dimension that a placement shards."""
    return placement.dim if isinstance(placement, (Shard, _StridedShard)) else None


def reduction(placement: Placement) -> str | None:
    """Return how a partial placement is to be reduced: "sum", "avg", "product", "max", "min"."""
    return placement.reduce_op if isinstance(placement, Partial) else None


def _mesh_dims(sizes: Sequence[int], placements: Sequence[Placement], dim: int) -> list[int] | None:
    """Return the mesh dimensions that shard a tensor dimension, the one with the largest pieces first.

    None where a strided shard is not an order of mesh dimensions.
    """
    order: list[int] = []
    for i in reversed(range(len(placements))):
        if shard_dim(placements[i]) != dim:
            continue
        split = getattr(placements[i], "split_factor", 1)  # the pieces that mesh dimensions cut before this one make
        at = next((k for k in range(len(order) + 1) if math.prod(sizes[j] for j in order[:k]) == split), None)
        if at is None:
            return None
        order.insert(at, i)
    return order


_Layout = TypeVar("_Layout")


def _of_a_mesh(compute: Callable[..., _Layout]) -> Callable[..., _Layout]:
    """Return a function that computes once with the ranks of a mesh, also where torch.compile traces without values."""

    @functools.lru_cache(maxsize=4096)
    @functools.wraps(compute)
    def computed(*args: Any) -> _Layout:
        with _disable_current_modes():
            return compute(*args)

    return computed


@_of_a_mesh
def is_part(mesh: DeviceMesh) -> bool:
    """Tell whether a mesh is one of several parallel ones in its root.

    The dimensions of the root that it does not have are not its business: how tensors lie along them, XLA finds out.
    """
    return parallel_ranks(mesh).shape[0] > 1


@_of_a_mesh
def manual(mesh: DeviceMesh) -> str:
    """Return the manual sharding of tensors that are local to the ranks of a mesh."""
    parallel = parallel_ranks(mesh)
    if parallel.numel() != partitioning.num_devices():
        return partitioning.PER_DEVICE
    groups = parallel.flatten(1).T
    return f"{{manual devices=[{groups.shape[0]},{groups.shape[1]}]{','.join(map(str, groups.flatten().tolist()))}}}"


@_of_a_mesh
def sharding(mesh: DeviceMesh, placements: tuple[Placement, ...], ndim: int) -> str | None:
    """Return the HLO sharding of a tensor of ``ndim`` dimensions, or None where no tiling is that layout.

    Devices outside the mesh, and the mesh's parallels in its root, hold replicas.
    """
    sizes = mesh.shape
    dims = []
    for d in range(ndim):
        if (order := _mesh_dims(sizes, placements, d)) is None:
            return None
        dims.append(order)
    tiles = [math.prod(sizes[i] for i in order) for order in dims]
    if max(tiles, default=1) == 1:
        return REPLICATED
    parallel = parallel_ranks(mesh)
    members = set(parallel.flatten().tolist())
    others = [r for r in range(partitioning.num_devices()) if r not in members]
    devices = torch.cat([parallel, torch.tensor(others, dtype=parallel.dtype).view(-1, *sizes)])
    sharded = [i for order in dims for i in order]
    rest = [i for i in range(mesh.ndim) if i not in sharded]
    ranks = devices.permute([i + 1 for i in (*sharded, *rest)] + [0]).flatten().tolist()
    replicas = len(ranks) // math.prod(tiles)
    shape = [*tiles, replicas] if replicas > 1 else tiles
    text = f"devices=[{','.join(map(str, shape))}]{','.join(map(str, ranks))}"
    return f"{{{text} last_tile_dim_replicate}}" if replicas > 1 else f"{{{text}}}"


@_of_a_mesh
def groups(mesh: DeviceMesh, mesh_dim: int) -> list[list[int]]:
    """Return the ranks that differ only in a mesh dimension, group by group, over all devices' parallels."""
    parallel = parallel_ranks(mesh)
    lines: list[list[int]] = parallel.movedim(mesh_dim + 1, -1).reshape(-1, mesh.size(mesh_dim)).tolist()
    members = {r for line in lines for r in line}
    others = [r for r in range(partitioning.num_devices()) if r not in members]
    size = mesh.size(mesh_dim)
    return lines + [others[i : i + size] for i in range(0, len(others), size)]


def uneven_dim(mesh: DeviceMesh, placements: Sequence[Placement], shape: Sequence[int]) -> tuple[int, int] | None:
    """Return the first dimension that does not divide into equal shards, and their number."""
    for d, size in enumerate(shape):
        parts = math.prod(mesh.size(i) for i, p in enumerate(placements) if shard_dim(p) == d)
        if size % parts:
            return d, parts
    return None


def local_shape(mesh: DeviceMesh, placements: Sequence[Placement], shape: Sequence[int]) -> list[int] | None:
    """Return the shape of every device's shard; None where devices have shards of different shapes."""
    sizes = list(shape)
    for i, placement in enumerate(placements):
        if (d := shard_dim(placement)) is not None:
            if sizes[d] % mesh.size(i):
                return None
            sizes[d] //= mesh.size(i)
    return sizes
