"""torch's ``fully_shard`` (FSDP2) on a mesh of devices.

Parameters are DTensors, sharded over the mesh. While a module runs, its attributes are the whole parameters, as plain
tensors. XLA gathers them where they are used, and sums and scatters their gradients. The batch is one tensor, which
is to be sharded over the mesh for each device to compute with its part. What torch says of streams, prefetching and
when to gather again is left to XLA.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp._fully_shard._fsdp_api import MixedPrecisionPolicy, OffloadPolicy
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from ._mesh import XlaDeviceMesh


@dataclass
class MeshInfo:
    """The mesh, in the place of torch's description, which has process groups."""

    mesh: XlaDeviceMesh


def mesh_info(mesh: XlaDeviceMesh, dp_mesh_dims: Any) -> MeshInfo:
    """Return what stands for a mesh of devices."""
    if dp_mesh_dims is not None:
        raise NotImplementedError("fully_shard on a mesh of devices takes the mesh to shard over: no dp_mesh_dims")
    return MeshInfo(mesh)


class _Group:
    """The parameters of a call of ``fully_shard``."""

    def __init__(self, params: Sequence[nn.Parameter], modules: Sequence[nn.Module], dtype: torch.dtype | None) -> None:
        self._dtype = dtype
        self._sharded: list[Any] = []
        mine = set(params)
        self._slots = [
            (part, name)
            for part in dict.fromkeys(part for module in modules for part in module.modules())
            for name, p in part._parameters.items()
            if p in mine
        ]

    def shard(self, place: Callable[[nn.Parameter], DTensor]) -> None:
        """Replace the parameters by sharded ones."""
        sharded: dict[nn.Parameter, nn.Parameter] = {}
        for part, name in self._slots:
            p = part._parameters[name]
            assert p is not None
            if p not in sharded:
                sharded[p] = nn.Parameter(place(p), requires_grad=p.requires_grad)
            part._parameters[name] = sharded[p]

    def unshard(self, module: nn.Module, args: Any) -> None:
        """Let the modules see the whole parameters."""
        self._sharded = [part._parameters[name] for part, name in self._slots]
        whole = {p: p.full_tensor().to(self._dtype or p.dtype) for p in dict.fromkeys(self._sharded)}
        for (part, name), p in zip(self._slots, self._sharded, strict=True):
            part._parameters[name] = whole[p]

    def reshard(self, module: nn.Module, args: Any, result: Any) -> None:
        """Let the modules have their sharded parameters back."""
        for (part, name), p in zip(self._slots, self._sharded, strict=True):
            part._parameters[name] = p


def init_group(
    params: list[nn.Parameter],
    modules: tuple[nn.Module, ...],
    mesh: XlaDeviceMesh,
    shard_placement_fn: Callable[[nn.Parameter], Any] | None,
    mp_policy: MixedPrecisionPolicy,
    offload_policy: OffloadPolicy,
) -> None:
    if type(offload_policy) is not OffloadPolicy:
        raise NotImplementedError("fully_shard on a mesh of devices keeps parameters there: no offload policy")
    if mp_policy.reduce_dtype not in (None, mp_policy.param_dtype):
        raise NotImplementedError("fully_shard on a mesh of devices sums gradients in the type of the parameters")
    if len(modules) > 1:
        raise NotImplementedError("fully_shard on a mesh of devices takes one module, not a list")

    def place(p: nn.Parameter) -> DTensor:
        if isinstance(p, DTensor):
            raise NotImplementedError("fully_shard on a mesh of devices takes parameters that are not distributed yet")
        wanted = Shard(0) if shard_placement_fn is None else shard_placement_fn(p) or Shard(0)
        if not isinstance(wanted, Shard):
            raise NotImplementedError(f"fully_shard on a mesh of devices shards only over its mesh, not by {wanted}")
        placements = [*[Replicate()] * (mesh.ndim - 1), wanted if p.dim() else Replicate()]
        return distribute_tensor(p.detach(), mesh, placements)

    group = _Group(params, modules, mp_policy.param_dtype)
    group.shard(place)
    modules[0].register_forward_pre_hook(group.unshard)
    modules[0].register_forward_hook(group.reshard, always_call=True)
