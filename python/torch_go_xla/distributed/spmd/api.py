"""Between torch's distributed tensors and ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor.placement_types import Placement

from ... import runtime
from ..tensor._distribute import xla_distribute_module, xla_distribute_tensor
from .mesh import Mesh, PartitionSpec
from .xla_sharded_tensor import partition_spec_of

__all__ = [
    "auto_policy",
    "convert_to_xla_mesh",
    "convert_to_xla_partition_spec",
    "xla_distribute_module",
    "xla_distribute_tensor",
]


def auto_policy(mod_name: str, mod: nn.Module, mesh: Any) -> None:
    """Stand for the choice of shardings by the compiler, which there is not: NotImplementedError."""
    runtime.use_spmd(auto=True)


def convert_to_xla_mesh(dt_mesh: DeviceMesh) -> Mesh:
    """Return torch's mesh as ours; AssertionError unless it has all devices."""
    runtime.use_spmd()
    return Mesh(dt_mesh.mesh.flatten().tolist(), tuple(dt_mesh.mesh.size()), dt_mesh.mesh_dim_names)


def convert_to_xla_partition_spec(tensor: torch.Tensor, placements: Sequence[Placement]) -> PartitionSpec:
    """Return torch's placements of a tensor as a partition spec.

    IndexError for a dimension that the tensor has not, NotImplementedError for Partial and strided shards.
    """
    return partition_spec_of(placements, tensor.dim())
