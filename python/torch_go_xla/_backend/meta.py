"""Our own ops on tensors without values, by which torch.compile and AOTAutograd trace them.

These are not fields of the rows. A shape function of torch's tracers is Python, and the core's shape rules cannot see
the symbolic sizes that tracers pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .op_sharding import OpSharding


def _annotate(self: torch.Tensor, sharding: str, open: bool = False) -> torch.Tensor:
    return torch.empty_like(self)


def _optimization_barrier(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [torch.empty_like(t) for t in tensors]


def _mark(tensors: Sequence[torch.Tensor], first: torch.Tensor | None, name: str, attributes: str) -> Any:
    return [torch.empty_like(t) for t in tensors]


def _place_in(self: torch.Tensor, memory: str) -> torch.Tensor:
    return torch.empty_like(self)


def _tensordot(self: torch.Tensor, other: torch.Tensor, dims_self: Sequence[int], dims_other: Sequence[int]) -> Any:
    return torch.tensordot(self, other, (list(dims_self), list(dims_other)))


def _full_to_shard(self: torch.Tensor, sharding: str, manual: str = "") -> torch.Tensor:
    tiles = OpSharding.parse(sharding).tiles or (1,) * self.dim()
    return self.new_empty([n // tile for n, tile in zip(self.shape, tiles, strict=False)])


def _shard_to_full(self: torch.Tensor, sharding: str, size: Sequence[int], manual: str = "") -> torch.Tensor:
    return self.new_empty(size)


def _all_reduce(self: torch.Tensor, op: str, groups: Sequence[int], size: int) -> torch.Tensor:
    return torch.empty_like(self)


def _resized(self: torch.Tensor, size: int, grown: int | None = None, shrunk: int | None = None) -> torch.Tensor:
    shape = list(self.shape)
    if grown is not None:
        shape[grown] *= size
    if shrunk is not None:
        shape[shrunk] //= size
    return self.new_empty(shape)


def _all_gather(self: torch.Tensor, dim: int, groups: Sequence[int], size: int) -> torch.Tensor:
    return _resized(self, size, grown=dim)


def _reduce_scatter(self: torch.Tensor, op: str, dim: int, groups: Sequence[int], size: int) -> torch.Tensor:
    return _resized(self, size, shrunk=dim)


def _all_to_all(self: torch.Tensor, split: int, concat: int, groups: Sequence[int], size: int) -> torch.Tensor:
    return _resized(self, size, grown=concat, shrunk=split)


def _collective_permute(self: torch.Tensor, pairs: Sequence[int]) -> torch.Tensor:
    return torch.empty_like(self)


def _partition_id(like: torch.Tensor) -> torch.Tensor:
    return like.new_empty((), dtype=torch.int64)


KERNELS = {
    "all_gather": _all_gather,
    "all_reduce": _all_reduce,
    "all_to_all": _all_to_all,
    "annotate": _annotate,
    "collective_permute": _collective_permute,
    "full_to_shard": _full_to_shard,
    "mark": _mark,
    "optimization_barrier": _optimization_barrier,
    "partition_id": _partition_id,
    "place_in": _place_in,
    "reduce_scatter": _reduce_scatter,
    "shard_to_full": _shard_to_full,
    "tensordot": _tensordot,
}
