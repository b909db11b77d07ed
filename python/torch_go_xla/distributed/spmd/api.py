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
    """Raise an error: the compiler does not choose shardings. Programs for torch_xla pass it to a partition function.

    Args:
        mod_name: the name of a part of a module.
        mod: the part.
        mesh: the mesh.

    Raises:
        NotImplementedError: always.

    Example:
        >>> import torch, torch_go_xla.distributed.spmd as xs
        >>> xs.auto_policy("", torch.nn.ReLU(), None)
        Traceback (most recent call last):
        NotImplementedError: automatic sharding is not supported: annotate tensors by hand
    """
    runtime.use_spmd(auto=True)


def convert_to_xla_mesh(dt_mesh: DeviceMesh) -> Mesh:
    """Return torch's mesh as a `Mesh`.

    Args:
        dt_mesh: a mesh of all devices.

    Raises:
        AssertionError: the mesh does not have all devices.

    Example:
        Four devices (``CPU_NUM_DEVICES=4``):

        >>> import torch_go_xla.runtime as xr
        >>> from torch.distributed.device_mesh import init_device_mesh
        >>> from torch_go_xla.distributed.spmd.api import convert_to_xla_mesh
        >>> xr.use_spmd()
        >>> convert_to_xla_mesh(init_device_mesh("xla", (2, 2))).get_logical_mesh().tolist()
        [[0, 1], [2, 3]]
    """
    runtime.use_spmd()
    return Mesh(dt_mesh.mesh.flatten().tolist(), tuple(dt_mesh.mesh.size()), dt_mesh.mesh_dim_names)


def convert_to_xla_partition_spec(tensor: torch.Tensor, placements: Sequence[Placement]) -> PartitionSpec:
    """Return torch's placements of a tensor as a partition spec.

    Args:
        tensor: the tensor.
        placements: one for each axis of a mesh.

    Raises:
        IndexError: the tensor does not have a dimension.
        NotImplementedError: a placement is Partial or a strided shard.

    Example:
        >>> import torch
        >>> from torch.distributed.tensor import Replicate, Shard
        >>> from torch_go_xla.distributed.spmd.api import convert_to_xla_partition_spec
        >>> convert_to_xla_partition_spec(torch.ones(4, 2), [Shard(1), Replicate()])
        (None, 0)
    """
    return partition_spec_of(placements, tensor.dim())
