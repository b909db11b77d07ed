"""From local tensors to DTensors, and between placements, with gradients; `_local` has the other way."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from torch.distributed.tensor._utils import compute_global_tensor_info
from torch.distributed.tensor.placement_types import Placement, Replicate

from ..._backend import partitioning
from . import _layout
from ._dtensor import XlaDTensor, lay_out, make_spec
from ._local import reduced


def logical_of(t: torch.Tensor, spec: DTensorSpec) -> torch.Tensor:
    """Return the logical tensor whose local value on every device is ``t``; ValueError where the shapes do not fit."""
    mesh, placements, shape = spec.mesh, spec.placements, spec.shape
    expected = _layout.local_shape(mesh, placements, shape)
    if expected != list(t.shape):
        raise ValueError(
            f"from_local: a local tensor of shape {tuple(t.shape)} on every device makes no tensor of shape "
            f"{tuple(shape)} with placements {placements} on {mesh}"
        )
    if partitioning.is_manual(t) or partitioning.is_traced(t):
        return _gather(t, spec)
    for i, p in enumerate(placements):
        if _layout.reduction(p) == "sum":
            t = t * mesh.size(i)
        elif _layout.reduction(p) == "product":
            t = t ** mesh.size(i)
        elif (d := _layout.shard_dim(p)) is not None:
            t = torch.cat([t] * mesh.size(i), dim=d)
    return lay_out(t.view_as(t), spec)


def _gather(t: torch.Tensor, spec: DTensorSpec) -> torch.Tensor:
    mesh, placements = spec.mesh, spec.placements
    for i, p in enumerate(placements):
        if (op := _layout.reduction(p)) is not None:
            t = partitioning.all_reduce(t, op, _layout.groups(mesh, i))
    text = _layout.sharding(mesh, placements, t.dim())
    if text is None:
        raise NotImplementedError(f"from_local: no tiling of {mesh} has the placements {placements}")
    return partitioning.shard_to_full(t, text, spec.shape, _layout.manual(mesh))


class FromLocal(torch.autograd.Function):
    """Local tensor → DTensor."""

    @staticmethod
    def forward(
        ctx: Any,
        t: torch.Tensor,
        mesh: DeviceMesh,
        placements: tuple[Placement, ...],
        run_check: bool,
        shape: torch.Size | None = None,
        stride: tuple[int, ...] | None = None,
        grad_placements: tuple[Placement, ...] | None = None,
    ) -> XlaDTensor:
        ctx.mesh = mesh
        ctx.placements = grad_placements or reduced(placements)
        ctx.set_materialize_grads(False)
        if (shape is None) != (stride is None):
            raise RuntimeError(
                f"Found shape:{shape}, stride:{stride}.", "Please pass both shape and stride at the same time."
            )
        if shape is None or stride is None:
            size, strides = compute_global_tensor_info(t, mesh, placements)
            shape, stride = torch.Size(size), tuple(strides)
        spec = DTensorSpec(mesh, placements, tensor_meta=TensorMeta(shape, stride, t.dtype))
        return XlaDTensor(logical_of(t, spec), spec, requires_grad=t.requires_grad)

    @staticmethod
    def backward(ctx: Any, grad: DTensor | None) -> Any:
        local = None
        if grad is not None:
            local = grad.redistribute(ctx.mesh, ctx.placements).to_local()
        return local, None, None, None, None, None, None


class Redistribute(torch.autograd.Function):
    """DTensor → DTensor with other placements."""

    @staticmethod
    def forward(
        ctx: Any,
        x: DTensor,
        mesh: DeviceMesh,
        placements: tuple[Placement, ...],
        async_op: bool,
        dtypes: dict[str, Any],
    ) -> XlaDTensor:
        if mesh != x.device_mesh:
            raise NotImplementedError("Cross device mesh comm not supported yet!")
        if len(placements) != mesh.ndim:
            raise IndexError(f"redistribute: {len(placements)} placements for the {mesh.ndim} dimension(s) of {mesh}")
        for p in placements:
            if (d := _layout.shard_dim(p)) is not None and d >= x.dim():
                raise IndexError(f"redistribute: Dimension out of range: {p} of a tensor of {x.dim()} dimension(s)")
        ctx.mesh, ctx.placements, ctx.dtype = mesh, x.placements, dtypes["op_dtype"]
        ctx.backward_dtypes = dtypes["backward_options"]
        t = x._local_tensor.to(dtypes["op_dtype"])
        spec = make_spec(t, mesh, placements)
        t = lay_out(t.view_as(t), spec).to(dtypes["out_dtype"])
        return XlaDTensor(t, make_spec(t, mesh, placements), requires_grad=x.requires_grad)

    @staticmethod
    def backward(ctx: Any, grad: DTensor) -> Any:
        back = ctx.backward_dtypes
        dtypes = {
            "op_dtype": back["op_dtype"],
            "out_dtype": back["out_dtype"],
            "backward_options": {"op_dtype": back["op_dtype"], "out_dtype": grad.dtype},
        }
        # A gradient that is whole stays so: making it partial would only ask for a reduction later.
        placements = tuple(
            Replicate() if p.is_partial() and not g.is_partial() else p
            for p, g in zip(ctx.placements, grad.placements, strict=True)
        )
        return Redistribute.apply(grad, ctx.mesh, placements, False, dtypes), None, None, None, None
