"""The DTensor of an xla mesh."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._dispatch import OpDispatcher
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from torch.distributed.tensor.placement_types import Placement, Replicate
from torch.utils._python_dispatch import return_and_correct_aliasing
from torch.utils._pytree import tree_map_only, tree_unflatten

from ..._backend import spmd
from . import _layout
from ._mesh import XlaDeviceMesh

aten = torch.ops.aten


class _Dispatcher(OpDispatcher):
    """torch's dispatcher with torch's rules; a plain xla tensor counts as replicated.

    That it is the same on all devices is certain here: one process wrote it.
    """

    def __init__(self) -> None:
        self.sharding_propagator = DTensor._op_dispatcher.sharding_propagator

    def _try_replicate_spec_for_scalar_tensor(self, op_call: Any, tensor_arg: torch.Tensor, compute_mesh: Any) -> Any:
        if tensor_arg.device.type != "xla" or spmd.is_manual(tensor_arg):
            return super()._try_replicate_spec_for_scalar_tensor(op_call, tensor_arg, compute_mesh)
        return make_spec(tensor_arg, compute_mesh, [Replicate()] * compute_mesh.ndim)


_dispatcher = _Dispatcher()



def make_spec(t: torch.Tensor, mesh: XlaDeviceMesh, placements: Sequence[Placement]) -> DTensorSpec:
    """Return the spec of a logical tensor."""
    return DTensorSpec(mesh, tuple(placements), tensor_meta=TensorMeta(t.shape, t.stride(), t.dtype))


def lay_out(t: torch.Tensor, spec: DTensorSpec) -> torch.Tensor:
    """Return a logical tensor with the layout of a spec; the same tensor where the layout is the compiler's choice."""
    if t.device.type != "xla" or any(p.is_partial() for p in spec.placements):
        return t
    text = _layout.sharding(spec.mesh, spec.placements, t.dim())
    return t if text is None else spmd.annotate(t, text)


class XlaDTensor(DTensor):
    """A DTensor over the devices of this process. ``_local_tensor`` is the logical tensor."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        handler = _HANDLERS.get(func)
        if handler is None and _is_loss_parallel(func):
            from ._loss import HANDLERS

            handler = HANDLERS[func]
        if handler is not None:
            return handler(func, args, kwargs)
        info = _dispatcher.unwrap_to_op_info(func, args, kwargs)
        try:
            spec = _dispatcher.sharding_propagator.propagate_op_sharding(info.schema).output_spec
        except NotImplementedError:
            if func._can_decompose():
                return func.decompose(*args, **kwargs)
            spec = None  # an op that torch has no rule for: the partitioner has one
        except Exception as e:
            raise RuntimeError(f"{e}\n\nSharding propagation failed for {info.schema}") from e
        if any(isinstance(s, DTensorSpec) and s.mesh != info.compute_mesh for s in info.flat_args_schema):
            raise NotImplementedError("Cross device mesh comm not supported yet!")
        operands = tree_unflatten(list(info.local_args), info.args_tree_spec) if info.args_tree_spec else info.local_args
        result = func(*operands, **tree_map_only(DTensor, _logical, info.local_kwargs))
        if info.schema.is_inplace_op():
            return _updated(func, args, kwargs, spec) if func._schema.returns else None
        if info.schema.is_out_variant_op():
            return _outs(func, kwargs, spec)
        wrapped = _wrap(result, spec, info.compute_mesh, keep=info.schema.is_view_op())
        return return_and_correct_aliasing(func, args, kwargs, wrapped) if info.schema.is_view_op() else wrapped

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return (
            f"DTensor(global_tensor={self._local_tensor}, device_mesh={self._spec.mesh}, "
            f"placements={self._spec.placements})"
        )

    def __reduce_ex__(self, protocol: Any) -> Any:
        if type(self) is not XlaDTensor:
            return super().__reduce_ex__(protocol)
        is_param = getattr(self, "_is_param", False)
        return rebuild, (self._local_tensor, self.device_mesh, self.placements, self.requires_grad, is_param)

    # torch.distributed.checkpoint: this process owns all of the tensor.

    def __create_write_items__(self, fqn: str, object: Any) -> list[Any]:
        from torch.distributed.checkpoint.planner_helpers import _create_write_item_for_tensor

        self._raise_if_contains_partial_placements()
        return [_create_write_item_for_tensor(fqn, self._local_tensor)]

    def __create_chunk_list__(self) -> list[ChunkStorageMetadata]:
        self._raise_if_contains_partial_placements()
        return [ChunkStorageMetadata(offsets=torch.Size([0] * self.dim()), sizes=self.shape)]

    def __get_tensor_shard__(self, index: MetadataIndex) -> torch.Tensor:
        self._raise_if_contains_partial_placements()
        return self._local_tensor


def rebuild(
    t: torch.Tensor, mesh: XlaDeviceMesh, placements: Sequence[Placement], requires_grad: bool, is_param: bool
) -> XlaDTensor:
    """Return the DTensor that was saved."""
    spec = make_spec(t, mesh, placements)
    made = XlaDTensor(lay_out(t, spec), spec, requires_grad=requires_grad)
    if is_param:
        made._is_param = True  # type: ignore[attr-defined]
    return made


def _logical(x: DTensor) -> torch.Tensor:
    return x._local_tensor


def _wrap(result: Any, spec: Any, mesh: XlaDeviceMesh, keep: bool) -> Any:
    """Return the results of an op as DTensors.

    ``keep``: a result is a view of an operand, which an annotation would copy.
    """
    if isinstance(result, torch.Tensor):
        if spec is None:
            spec = make_spec(result, mesh, [Replicate()] * mesh.ndim)
            keep = True
        elif not keep and any(_layout.shard_dim(p) is not None for p in spec.placements):
            result = lay_out(result, spec)
        return XlaDTensor(result, spec, requires_grad=False)
    if isinstance(result, (list, tuple)):
        specs = spec if isinstance(spec, (list, tuple)) else [spec] * len(result)
        return type(result)(_wrap(r, s, mesh, keep) for r, s in zip(result, specs, strict=True))
    return result


def _updated(func: Any, args: Any, kwargs: Any, spec: Any) -> Any:
    """Return the operand that an in-place op wrote, with its new shape and placements."""
    self = args[0]
    if not isinstance(self, DTensor):
        return self
    if spec is None:
        value = self._local_tensor
        same = value.shape == self._spec.shape
        spec = self._spec if same else make_spec(value, self.device_mesh, [Replicate()] * self.device_mesh.ndim)
    if spec.placements == self._spec.placements and spec.shape == self._spec.shape:
        return self
    self._spec = spec
    return return_and_correct_aliasing(func, args, kwargs, self)


def _outs(func: Any, kwargs: Any, spec: Any) -> Any:
    specs = spec if isinstance(spec, tuple) else (spec,)
    outs = [kwargs[a.name] for a in func._schema.arguments if a.is_out]
    for out, s in zip(outs, specs, strict=True):
        if s is not None:
            out._spec = s
    return outs[0] if len(outs) == 1 else tuple(outs)


# Ops that torch's dispatcher does not leave to sharding propagation.


def _is_same_size(func: Any, args: Any, kwargs: Any) -> bool:
    return bool(args[0].shape == args[1].shape)


def _torch_handler(func: Any, args: Any, kwargs: Any) -> Any:
    """Do what torch does: its handler calls other ops."""
    return DTensor._op_dispatcher._custom_op_handlers[func](func, args, kwargs)


def _unscale(func: Any, args: Any, kwargs: Any) -> None:
    func(*tree_map_only(DTensor, _logical, args), **kwargs)


_HANDLERS: dict[Any, Callable[..., Any]] = {
    aten.is_same_size.default: _is_same_size,
    aten.as_strided.default: _torch_handler,
    aten._amp_foreach_non_finite_check_and_unscale_.default: _unscale,
}


def _is_loss_parallel(func: Any) -> bool:
    return func in _LOSS_OPS and func in DTensor._op_dispatcher._custom_op_handlers


_LOSS_OPS = {
    aten._log_softmax.default,
    aten._log_softmax_backward_data.default,
    aten.nll_loss_forward.default,
    aten.nll_loss2d_forward.default,
    aten.nll_loss_backward.default,
    aten.nll_loss2d_backward.default,
}

torch.serialization.add_safe_globals([XlaDTensor, rebuild])
