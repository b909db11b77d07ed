"""The DTensor of an xla mesh."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.distributed._functional_collectives import _are_we_tracing
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._dispatch import OpDispatcher, pytree  # type: ignore[attr-defined]
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from torch.distributed.tensor._op_schema import OpSchema
from torch.distributed.tensor.placement_types import Placement, Replicate
from torch.utils._python_dispatch import return_and_correct_aliasing
from torch.utils._pytree import tree_map_only

from ..._backend import partitioning, tiles
from ..._backend.snapshot import unwrapped
from ..._backend.storage import is_saved_as_cpu
from . import _layout, _parted
from ._local import ToLocal

aten = torch.ops.aten
_aliased: Any = return_and_correct_aliasing


class _Dispatcher(OpDispatcher):
    """torch's dispatcher with torch's rules; a plain xla tensor counts as replicated.

    That it is the same on all devices is certain here: one process wrote it.
    """

    def __init__(self) -> None:
        self.sharding_propagator = DTensor._op_dispatcher.sharding_propagator

    def _try_replicate_spec_for_scalar_tensor(self, op_call: Any, tensor_arg: torch.Tensor, compute_mesh: Any) -> Any:
        if tensor_arg.device.type != "xla":
            return super()._try_replicate_spec_for_scalar_tensor(op_call, tensor_arg, compute_mesh)
        if partitioning.is_manual(tensor_arg):
            raise RuntimeError(
                f"{op_call}: got mixed torch.Tensor and DTensor: a local tensor differs from device to device, "
                "DTensor.from_local says how it is part of a whole"
            )
        return make_spec(tensor_arg, compute_mesh, [Replicate()] * compute_mesh.ndim)


_dispatcher: Any = _Dispatcher()


def make_spec(t: torch.Tensor, mesh: DeviceMesh, placements: Sequence[Placement]) -> DTensorSpec:
    """Return the spec of a logical tensor."""
    return DTensorSpec(mesh, tuple(placements), tensor_meta=TensorMeta(t.shape, t.stride(), t.dtype))


def _layout_of(t: torch.Tensor, spec: DTensorSpec) -> str | None:
    """Return the sharding that placements ask for; None where they leave it to the compiler."""
    if t.device.type != "xla" or any(p.is_partial() for p in spec.placements):
        return None
    return _layout.sharding(spec.mesh, spec.placements, t.dim())


def lay_out(t: torch.Tensor, spec: DTensorSpec) -> torch.Tensor:
    """Return a logical tensor with the layout of a spec; the same tensor where the layout is the compiler's choice."""
    text, open = _layout_of(t, spec), _layout.is_part(spec.mesh)
    return t if text is None or open and text == _layout.REPLICATED else partitioning.annotate(t, text, open)


def bind_layout(t: torch.Tensor, spec: DTensorSpec) -> torch.Tensor:
    """Return a tensor, which no one else has, with the layout of a spec for its present and its later values."""
    if partitioning.is_traced(t):
        return lay_out(t, spec)
    text = _layout_of(t, spec)
    if text is not None:
        partitioning.annotate_(t, text)
    return t


class XlaDTensor(_parted.Parted, DTensor):
    """A DTensor over the devices of this process. ``_local_tensor`` is the logical tensor.

    Example:
        Four devices (``CPU_NUM_DEVICES=4``):

        >>> import torch, torch_go_xla, torch_go_xla.runtime as xr
        >>> from torch.distributed.device_mesh import init_device_mesh
        >>> from torch.distributed.tensor import Shard, distribute_tensor
        >>> xr.use_spmd()
        >>> x = distribute_tensor(torch.ones(8, 2), init_device_mesh("xla", (4,)), [Shard(0)])
        >>> type(x).__name__, x.to_local().shape, x.full_tensor().shape, (x @ x.T).shape
        ('XlaDTensor', torch.Size([2, 2]), torch.Size([8, 2]), torch.Size([8, 8]))
    """

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if (handler := _handler(func)) is not None:
            return handler(func, args, kwargs)
        info = _dispatcher.unwrap_to_op_info(func, args, kwargs)
        schema: Any = info.schema
        try:
            spec = _propagate(info).output_spec
        except NotImplementedError:
            if func._can_decompose():
                return func.decompose(*args, **kwargs)
            spec = None  # an op that torch has no rule for: the partitioner has one
        except (DataDependentOutputException, DynamicOutputShapeException):
            spec = None  # torch's rules go by shapes; here the values are at hand
        except Exception as e:
            raise RuntimeError(f"{e}\n\nSharding propagation failed for {schema}") from e
        if any(isinstance(s, DTensorSpec) and s.mesh != info.compute_mesh for s in info.flat_args_schema):
            raise NotImplementedError("Cross device mesh comm not supported yet!")
        operands = info.local_args
        if info.args_tree_spec:
            operands = pytree.tree_unflatten(list(operands), info.args_tree_spec)
        result = func(*operands, **info.local_kwargs)
        if schema.is_inplace_op():
            return _updated(func, args, kwargs, spec) if func._schema.returns else None
        if schema.is_out_variant_op():
            return _outs(func, kwargs, spec)
        wrapped = _wrap(result, spec, info.compute_mesh, keep=schema.is_view_op() or func is aten._unsafe_view.default)
        return _aliased(func, args, kwargs, wrapped) if schema.is_view_op() else wrapped

    def to_local(self, *, grad_placements: Sequence[Placement] | None = None) -> torch.Tensor:
        """Return what each device holds: a manual tensor, or a plain one where all devices hold the same.

        Args:
            grad_placements: the placements of the gradient, by default those of the tensor.

        Raises:
            NotImplementedError: the shards differ in shape.
        """
        local: torch.Tensor = ToLocal.apply(self, grad_placements)
        if getattr(self, "_is_param", False):
            local._is_param = True
        return local

    def full_tensor(self, *, grad_placements: Sequence[Placement] | None = None) -> torch.Tensor:
        """Return the logical tensor, whole on every device.

        Args:
            grad_placements: the placements of the gradient, by default replicated.
        """
        whole: DTensor = self.redistribute(placements=[Replicate()] * self.device_mesh.ndim)
        return whole.to_local(grad_placements=grad_placements)

    def __repr__(self) -> str:  # type: ignore[override]
        return (
            f"DTensor(global_tensor={self._local_tensor}, device_mesh={self._spec.mesh}, "
            f"placements={self._spec.placements})"
        )

    def _repr_html_(self) -> str:
        return tiles.picture(unwrapped(self._local_tensor))

    def __reduce_ex__(self, protocol: Any) -> Any:
        if type(self) is not XlaDTensor:
            return super().__reduce_ex__(protocol)  # type: ignore[no-untyped-call]
        if is_saved_as_cpu():
            return self._local_tensor.__reduce_ex__(protocol)  # type: ignore[no-untyped-call]
        is_param = getattr(self, "_is_param", False)
        return rebuild, (self._local_tensor, self.device_mesh, self.placements, self.requires_grad, is_param)

    @staticmethod
    def __tensor_unflatten__(inner_tensors: Any, flatten_spec: Any, outer_size: Any, outer_stride: Any) -> XlaDTensor:
        placements, meta, order, requires_grad = flatten_spec
        meta = TensorMeta(outer_size, outer_stride, meta.dtype)
        spec = DTensorSpec(inner_tensors["device_mesh"], placements, tensor_meta=meta, shard_order=order)
        return XlaDTensor(inner_tensors["_local_tensor"], spec, requires_grad=requires_grad)

    def _logical(self) -> torch.Tensor:
        self._raise_if_contains_partial_placements()
        return self._local_tensor


def rebuild(
    t: torch.Tensor, mesh: DeviceMesh, placements: Sequence[Placement], requires_grad: bool, is_param: bool
) -> XlaDTensor:
    """Return the DTensor that was saved."""
    spec = make_spec(t, mesh, placements)
    made = XlaDTensor(bind_layout(t, spec), spec, requires_grad=requires_grad)
    if is_param:
        made._is_param = True
    return made


def _logical(x: DTensor) -> torch.Tensor:
    return x._local_tensor


def _propagate(info: Any) -> Any:
    """Return torch's rule for an op: the placements of its results.

    A partial operand that the op needs reduced is reduced to replicas, here and in ``info``. torch prefers to scatter
    it, as that sends less; the results are then scattered too, and gathered later, which together sends more.
    """
    propagator = _dispatcher.sharding_propagator
    rule = propagator.propagate_op_sharding_non_cached if _are_we_tracing() else propagator.propagate_op_sharding
    sharding, schema = rule(info.schema), info.schema
    if not sharding.needs_redistribute or schema.is_view_op():
        return sharding
    wanted = sharding.redistribute_schema.args_schema
    wanted = pytree.tree_leaves(wanted) if info.args_tree_spec else wanted
    specs, operands = list(info.flat_args_schema), list(info.local_args)
    for i, (at, to) in enumerate(zip(specs, wanted, strict=False)):
        movable = isinstance(at, DTensorSpec) and isinstance(to, DTensorSpec) and at.mesh == to.mesh
        if not movable or (i == 0 and schema.is_inplace_op()):
            continue
        placements = tuple(
            Replicate() if p.is_partial() and not q.is_partial() else p
            for p, q in zip(at.placements, to.placements, strict=True)
        )
        if placements != at.placements:
            specs[i] = DTensorSpec(at.mesh, placements, tensor_meta=at.tensor_meta)
            operands[i] = lay_out(operands[i], specs[i])
    if all(new is old for new, old in zip(specs, info.flat_args_schema, strict=True)):
        return sharding
    info.local_args = operands
    args = pytree.tree_unflatten(specs, info.args_tree_spec) if info.args_tree_spec else tuple(specs)
    return rule(OpSchema(schema.op, args, schema.kwargs_schema, schema_info=schema.schema_info))


def _wrap(result: Any, spec: Any, mesh: DeviceMesh, keep: bool) -> Any:
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
    return _aliased(func, args, kwargs, self)


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


# Those that count inside loss_parallel(), which enters torch's own for the same ops. An import fills it.
LOSS_HANDLERS: dict[Any, Callable[..., Any]] = {}


def _handler(func: Any) -> Callable[..., Any] | None:
    if func in LOSS_HANDLERS:
        return LOSS_HANDLERS[func] if func in DTensor._op_dispatcher._custom_op_handlers else None
    return _HANDLERS.get(func)


torch.serialization.add_safe_globals([XlaDTensor, rebuild])
