"""Cross entropy on logits that are sharded over the classes, `torch.distributed.tensor.parallel.loss_parallel`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._ops._math_ops import Reduction, _skip_dim, replicate_reduction_dims
from torch.distributed.tensor.parallel.loss import _cast_to_dtensor, _find_all_reduce_mesh_dim
from torch.distributed.tensor.placement_types import Partial, Placement, Replicate

from ._dtensor import LOSS_HANDLERS, XlaDTensor, lay_out, make_spec

aten = torch.ops.aten


def _like(t: torch.Tensor, x: DTensor, placements: Sequence[Placement]) -> XlaDTensor:
    spec = make_spec(t, x.device_mesh, placements)
    return XlaDTensor(lay_out(t, spec), spec, requires_grad=False)


def _logical(x: Any) -> Any:
    return x._local_tensor if isinstance(x, DTensor) else x


def _log_softmax(func: Any, args: Any, kwargs: Any) -> XlaDTensor:
    x, dim, *rest = args
    _find_all_reduce_mesh_dim(x.placements, dim % max(x.dim(), 1))
    return _like(func(_logical(x), dim, *rest), x, x.placements)


def _log_softmax_backward(func: Any, args: Any, kwargs: Any) -> XlaDTensor:
    grad, output, *rest = args
    return _like(func(_logical(grad), _logical(output), *rest), output, output.placements)


def _operands(x: DTensor, target: Any, weight: Any) -> tuple[tuple[Placement, ...], Any, Any]:
    """Return target's placements, and target and weight as logical tensors; torch's errors for other placements."""
    mesh = x.device_mesh
    channel = 1 if x.dim() >= 2 else 0
    _find_all_reduce_mesh_dim(x.placements, channel)
    placements = _skip_dim(replicate_reduction_dims(x.placements, [channel]), channel)
    target = _logical(_cast_to_dtensor(target, placements, mesh))
    if weight is not None:
        weight = _logical(_cast_to_dtensor(weight, (Replicate(),) * mesh.ndim, mesh))
    return placements, target, weight


def _nll_loss(func: Any, args: Any, kwargs: Any) -> tuple[XlaDTensor, torch.Tensor]:
    x, target, weight, reduction, *rest = args
    placements, target, weight = _operands(x, target, weight)
    if reduction != Reduction.NONE.value:
        if reduction == Reduction.MEAN.value and x.device_mesh.ndim > 1:
            raise NotImplementedError(
                "loss_parallel() with reduction='mean' is only supported on one-dimensional DeviceMesh; got mesh "
                f"with ndim={x.device_mesh.ndim}. Use reduction='sum' or 'none' instead."
            )
        placements = tuple(Partial() if p.is_shard() else Replicate() for p in placements)
    loss, total_weight = func(_logical(x), target, weight, reduction, *rest)
    return _like(loss, x, placements), total_weight


def _nll_loss_backward(func: Any, args: Any, kwargs: Any) -> XlaDTensor:
    grad, x, target, weight, *rest = args
    _, target, weight = _operands(x, target, weight)
    return _like(func(_logical(grad), _logical(x), target, weight, *map(_logical, rest)), x, x.placements)


LOSS_HANDLERS.update(
    {
        aten._log_softmax.default: _log_softmax,
        aten._log_softmax_backward_data.default: _log_softmax_backward,
        aten.nll_loss_forward.default: _nll_loss,
        aten.nll_loss2d_forward.default: _nll_loss,
        aten.nll_loss_backward.default: _nll_loss_backward,
        aten.nll_loss2d_backward.default: _nll_loss_backward,
    }
)
