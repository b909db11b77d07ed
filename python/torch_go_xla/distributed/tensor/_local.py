"""From DTensors to the local tensors of their devices, with gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor.placement_types import Placement, Replicate

from ..._backend import partitioning
from . import _layout


def reduced(placements: Sequence[Placement]) -> tuple[Placement, ...]:
    """Return the placements of a gradient: torch keeps none partial."""
    return tuple(Replicate() if p.is_partial() else p for p in placements)


def is_replicated(mesh: DeviceMesh, placements: Sequence[Placement]) -> bool:
    """Return whether every device holds the whole tensor, or a part of its sum."""
    return all(p.is_replicate() or p.is_partial() or mesh.size(i) == 1 for i, p in enumerate(placements))


def local_of(t: torch.Tensor, spec: DTensorSpec) -> torch.Tensor:
    """Return the local value of a logical tensor: a plain tensor where it is the same on all devices, else manual.

    Of a partial sum, each device has an equal part. NotImplementedError where shards differ in shape.
    """
    mesh, placements = spec.mesh, spec.placements
    for i, p in enumerate(placements):
        if _layout.reduction(p) == "sum":
            t = t / mesh.size(i)
    if is_replicated(mesh, placements):
        return t.view_as(t)
    if (uneven := _layout.uneven_dim(mesh, placements, spec.shape)) is not None:
        dim, parts = uneven
        raise NotImplementedError(
            f"to_local: the shards of a tensor of shape {tuple(spec.shape)} with placements {placements} on {mesh} are "
            f"not alike on all devices: dimension {dim} of size {spec.shape[dim]} does not divide into {parts} equal "
            "parts, and one program computes with local tensors of one shape on all devices. Pad the dimension to "
            f"{-(-spec.shape[dim] // parts) * parts}, or redistribute() to Replicate() or to a dimension that divides"
        )
    text = _layout.sharding(mesh, placements, t.dim())
    if text is None:
        raise NotImplementedError(f"to_local: no tiling of {mesh} has the placements {placements}; redistribute first")
    return partitioning.full_to_shard(t, text, _layout.manual(mesh))


class ToLocal(torch.autograd.Function):
    """DTensor → local tensor."""

    @staticmethod
    def forward(ctx: Any, x: DTensor, grad_placements: Sequence[Placement] | None) -> torch.Tensor:
        ctx.spec = x._spec
        ctx.grad_placements = grad_placements
        ctx.set_materialize_grads(False)
        return local_of(x._local_tensor, x._spec)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor | None) -> Any:
        if grad is None:
            return None, None
        spec = ctx.spec
        placements = ctx.grad_placements or reduced(spec.placements)
        return DTensor.from_local(grad, spec.mesh, placements, shape=spec.shape, stride=spec.stride), None
