"""Marking tensors with the shardings of a mesh."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ... import _XLAC, runtime
from ..._backend import partitioning
from ..._backend.core import is_xla
from ..._backend.op_sharding import OpSharding, ShardingType
from ...core import xla_model as xm
from .linear import EinsumLinear, XLAPatchedLinear, apply_xla_patch_to_nn_linear, xla_patched_nn_linear_forward
from .mesh import HybridMesh, Mesh, PartitionSpec, get_1d_mesh, get_global_mesh, set_global_mesh
from .xla_sharded_tensor import XLAShardedTensor, unwrap_sharded_tensor, wrap_as_sharded_tensor

__all__ = [
    "EinsumLinear",
    "HybridMesh",
    "MarkShardingFunction",
    "Mesh",
    "PartitionSpec",
    "ShardingSpec",
    "ShardingType",
    "XLAPatchedLinear",
    "XLAShardedTensor",
    "annotate_custom_sharding",
    "apply_backward_optimization_barrier",
    "apply_xla_patch_to_nn_linear",
    "clear_sharding",
    "disable_manual_sharding",
    "enable_manual_sharding",
    "get_1d_mesh",
    "get_global_mesh",
    "mark_sharding",
    "mark_sharding_with_gradients",
    "set_global_mesh",
    "unwrap_sharded_tensor",
    "wrap_as_sharded_tensor",
    "wrap_if_sharded",
    "xla_patched_nn_linear_forward",
]


def _sharding(t: torch.Tensor, mesh: Mesh, partition_spec: PartitionSpec) -> OpSharding:
    if t.dim() != len(partition_spec):
        raise AssertionError(
            f"Partition spec length ({len(partition_spec)}) should be equal to the input rank ({t.dim()})."
        )
    return mesh.get_op_sharding(tuple(partition_spec))


def mark_sharding(t: torch.Tensor, mesh: Mesh, partition_spec: PartitionSpec) -> XLAShardedTensor:
    """Shard a tensor, in place: its value and later values, by in-place ops or an optimizer, lie on the devices so.

    Args:
        t: the tensor. What is on the devices is sent where it belongs at once.
        mesh: the devices.
        partition_spec: for each dimension an axis of the mesh, by number or name, a tuple of axes, or None.

    Returns:
        The tensor as an `XLAShardedTensor`, which passes gradients on to it.

    Raises:
        AssertionError: the spec has another number of dimensions, or an axis is used twice.
        ValueError: the mesh does not have an axis.
        RuntimeError: the tensor has another sharding: see `clear_sharding`.

    Example:
        Four devices (``CPU_NUM_DEVICES=4``):

        >>> import torch, torch_go_xla.runtime as xr, torch_go_xla.distributed.spmd as xs
        >>> xr.use_spmd()
        >>> mesh = xs.Mesh(range(4), (2, 2), ("data", "model"))
        >>> weight = xs.mark_sharding(torch.ones(8, 6, device="xla"), mesh, ("model", None))
        >>> [tuple(shard.data.shape) for shard in weight.local_shards]  # two halves, two copies of each
        [(4, 6), (4, 6), (4, 6), (4, 6)]
    """
    _XLAC._xla_mark_sharding(t, _sharding(t, mesh, partition_spec))
    return wrap_as_sharded_tensor(t, mesh.mesh_shape, partition_spec, mesh=mesh)


def annotate_custom_sharding(t: torch.Tensor, mesh: Mesh, partition_spec: PartitionSpec) -> XLAShardedTensor:
    """Do what `mark_sharding` does, with a tensor that may be sharded otherwise.

    Args:
        t: the tensor.
        mesh: the devices.
        partition_spec: as for `mark_sharding`.

    Returns:
        The tensor as an `XLAShardedTensor`.

    Raises:
        AssertionError: the spec has another number of dimensions, or an axis is used twice.
        ValueError: the mesh does not have an axis.

    Example:
        >>> import torch, torch_go_xla.runtime as xr, torch_go_xla.distributed.spmd as xs
        >>> xr.use_spmd()
        >>> mesh = xs.get_1d_mesh("x")
        >>> x = xs.mark_sharding(torch.ones(4, 4, device="xla"), mesh, ("x", None))
        >>> xs.annotate_custom_sharding(x, mesh, (None, "x")).placements
        (Shard(dim=1),)
    """
    _XLAC._xla_annotate_custom_sharding(t, _sharding(t, mesh, partition_spec))
    return wrap_as_sharded_tensor(t, mesh.mesh_shape, partition_spec, mesh=mesh)


class MarkShardingFunction(torch.autograd.Function):
    """The autograd function of `mark_sharding_with_gradients`.

    Example:
        >>> import torch, torch_go_xla.runtime as xr, torch_go_xla.distributed.spmd as xs
        >>> xr.use_spmd()
        >>> x = torch.ones(4, device="xla", requires_grad=True)
        >>> xs.MarkShardingFunction.apply(x, xs.get_1d_mesh("x"), ("x",)).sum().backward()
        >>> xs.wrap_if_sharded(x.grad.cpu()).tolist()
        [1.0, 1.0, 1.0, 1.0]
    """

    @staticmethod
    def forward(ctx: Any, torch_tensor: torch.Tensor, mesh: Mesh, partition_spec: PartitionSpec) -> torch.Tensor:
        ctx.text = str(_sharding(torch_tensor, mesh, partition_spec))
        return partitioning.annotate(unwrap_sharded_tensor(torch_tensor), ctx.text)

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return partitioning.annotate(unwrap_sharded_tensor(grad_output), ctx.text), None, None


def mark_sharding_with_gradients(t: torch.Tensor, mesh: Mesh, partition_spec: PartitionSpec) -> torch.Tensor:
    """Return a tensor's value sharded; its gradient is sharded likewise. The tensor itself stays as it is.

    Args:
        t: the tensor.
        mesh: the devices.
        partition_spec: as for `mark_sharding`.

    Raises:
        AssertionError: the spec has another number of dimensions, or an axis is used twice.
        ValueError: the mesh does not have an axis.

    Example:
        >>> import torch, torch_go_xla.runtime as xr, torch_go_xla.distributed.spmd as xs
        >>> xr.use_spmd()
        >>> x = torch.ones(4, device="xla", requires_grad=True)
        >>> xs.mark_sharding_with_gradients(x * 2, xs.get_1d_mesh("x"), ("x",)).sum().backward()
        >>> x.grad.tolist()
        [2.0, 2.0, 2.0, 2.0]
    """
    return MarkShardingFunction.apply(t, mesh, partition_spec)  # type: ignore[no-any-return]


def clear_sharding(t: torch.Tensor) -> torch.Tensor:
    """Remove a tensor's sharding, in place: its value is on every device.

    Args:
        t: the tensor.

    Returns:
        The plain tensor.

    Example:
        >>> import torch, torch_go_xla.runtime as xr, torch_go_xla.distributed.spmd as xs
        >>> xr.use_spmd()
        >>> x = xs.mark_sharding(torch.ones(4, device="xla"), xs.get_1d_mesh("x"), ("x",))
        >>> type(xs.clear_sharding(x)).__name__, x.sharding_spec
        ('Tensor', '')
    """
    _XLAC._xla_clear_sharding(t)
    return unwrap_sharded_tensor(t)


def wrap_if_sharded(x: Any) -> Any:
    """Return a tensor that is sharded as an `XLAShardedTensor`, anything else as it is.

    Args:
        x: any value.

    Example:
        >>> import torch, torch_go_xla.runtime as xr, torch_go_xla.distributed.spmd as xs
        >>> xr.use_spmd()
        >>> x = torch.ones(4, device="xla")
        >>> marked = xs.mark_sharding(x, xs.get_1d_mesh("x"), ("x",))
        >>> type(xs.wrap_if_sharded(x)).__name__, xs.wrap_if_sharded("label")
        ('XLAShardedTensor', 'label')
    """
    if not isinstance(x, torch.Tensor) or isinstance(x, XLAShardedTensor) or not is_xla(x):
        return x
    return x if _XLAC._get_xla_sharding_type(x) is None else XLAShardedTensor(x)


# ---- manual regions ----


def _given(mesh: Mesh | None) -> Mesh:
    mesh = mesh or get_global_mesh()
    if mesh is None:
        raise ValueError("no mesh is given and no global mesh is set")
    return mesh


def enable_manual_sharding(
    t: torch.Tensor, partition_spec: PartitionSpec, *, mesh: Mesh | None = None
) -> XLAShardedTensor:
    """Return what each device holds of a tensor: a value of its own on each device, of the shard's shape.

    What is computed with it is computed on each device by itself, until `disable_manual_sharding`.

    Args:
        t: the tensor, which is sharded as by `mark_sharding`.
        partition_spec: as for `mark_sharding`.
        mesh: the devices; the global mesh by default.

    Raises:
        ValueError: there is no mesh.

    Example:
        Four devices (``CPU_NUM_DEVICES=4``) add up two elements each:

        >>> import torch, torch_go_xla.runtime as xr, torch_go_xla.distributed.spmd as xs
        >>> xr.use_spmd()
        >>> mesh = xs.get_1d_mesh("x")
        >>> part = xs.enable_manual_sharding(torch.arange(8.0, device="xla"), ("x",), mesh=mesh)
        >>> part.shape
        torch.Size([2])
        >>> xs.disable_manual_sharding(part.sum(0, keepdim=True), ("x",), (4,), mesh=mesh).cpu().tolist()
        [1.0, 5.0, 9.0, 13.0]
    """
    mesh = _given(mesh)
    marked = mark_sharding(t, mesh, partition_spec)
    local = _XLAC._spmd_full_to_shard_shape(marked)
    return wrap_as_sharded_tensor(local, mesh.mesh_shape, partition_spec, mesh=mesh)


def disable_manual_sharding(
    t: torch.Tensor, partition_spec: PartitionSpec, full_shape: Sequence[int], *, mesh: Mesh | None = None
) -> XLAShardedTensor:
    """Return the tensor of a full shape of which each device holds its own value of another.

    Args:
        t: what each device holds, as `enable_manual_sharding` makes it.
        partition_spec: how the full tensor is sharded.
        full_shape: its shape.
        mesh: the devices; the global mesh by default.

    Raises:
        RuntimeError: ``t`` does not have a value of its own on each device.
        ValueError: there is no mesh.

    Example:
        Four devices (``CPU_NUM_DEVICES=4``):

        >>> import torch, torch_go_xla.runtime as xr, torch_go_xla.distributed.spmd as xs
        >>> xr.use_spmd()
        >>> mesh = xs.get_1d_mesh("x")
        >>> part = xs.enable_manual_sharding(torch.arange(4.0, device="xla"), ("x",), mesh=mesh)
        >>> xs.disable_manual_sharding(part * 2, ("x",), (4,), mesh=mesh).cpu().tolist()
        [0.0, 2.0, 4.0, 6.0]
    """
    mesh = _given(mesh)
    sharding = mesh.get_op_sharding(tuple(partition_spec))
    full = _XLAC._spmd_shard_to_full_shape(_mark_manual_sharding(t), sharding, full_shape, t.dtype)
    return wrap_as_sharded_tensor(full, mesh.mesh_shape, partition_spec, mesh=mesh)


def _mark_manual_sharding(t: torch.Tensor) -> XLAShardedTensor:
    """Make the value of a tensor one of each device by itself, unless it is; errors are `_XLAC`'s."""
    _XLAC._mark_manual_sharding(t, OpSharding([], [], [], ShardingType.MANUAL))
    return wrap_as_sharded_tensor(t)


# ---- modules ----


def apply_backward_optimization_barrier(m: nn.Module) -> None:
    """Let a module's backward pass be compiled apart from the others'.

    Without it, the compiler may wait with all gradients until it can sum them over the devices together, in one large
    buffer.

    Args:
        m: the module.

    Example:
        >>> import torch, torch_go_xla.distributed.spmd as xs
        >>> layers = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2))
        >>> for layer in layers:
        ...     xs.apply_backward_optimization_barrier(layer)
    """

    def barrier(module: nn.Module, grad_input: Any, grad_output: Any) -> None:
        grads = [p.grad for p in module.parameters() if p.grad is not None]
        xm.optimization_barrier_(grads + [g for g in grad_input if g is not None])

    m.register_full_backward_hook(barrier)


# ---- functions that torch.compile reads ----

# A mesh is not an argument of a graph's op; what makes it is.
_library: Any = torch.library.Library("xla", "FRAGMENT")  # type: ignore[no-untyped-call]
_library.define(
    "dynamo_mark_sharding(Tensor input, int[] device_ids, int[] mesh_shape, str axis_names, str partition_spec)"
    " -> Tensor"
)


def _dynamo_mark_sharding(
    input: torch.Tensor, device_ids: Sequence[int], mesh_shape: Sequence[int], axis_names: str, partition_spec: str
) -> torch.Tensor:
    """Do what `mark_sharding` does, in a compiled function too; returns the tensor's value."""
    mesh = Mesh(device_ids, tuple(mesh_shape), ast.literal_eval(axis_names))
    mark_sharding(input, mesh, ast.literal_eval(partition_spec))
    return input.clone()


_library.impl("dynamo_mark_sharding", lambda input, *mark: input.clone(), "CompositeExplicitAutograd")
_library.impl("dynamo_mark_sharding", _dynamo_mark_sharding, "PrivateUse1")
torch.library.register_autograd(
    "xla::dynamo_mark_sharding", lambda ctx, grad: (grad, None, None, None, None), lib=_library
)
torch.fx.node.has_side_effect(
    torch.ops.xla.dynamo_mark_sharding.default
)  # not to be dropped where no one uses its result


# ---- inputs ----


@dataclass
class ShardingSpec:
    """How the inputs of a program are sharded.

    Attributes:
        mesh: the devices.
        partition_spec: as `mark_sharding` takes it; tensors of another number of dimensions are not sharded.
        minibatch: the batch, dimension 0, is a part of one that all processes have together.

    Example:
        Four devices (``CPU_NUM_DEVICES=4``):

        >>> import torch, torch_go_xla.runtime as xr, torch_go_xla.distributed.spmd as xs
        >>> xr.use_spmd()
        >>> spec = xs.ShardingSpec(xs.get_1d_mesh("data"), ("data", None))
        >>> spec.can_apply(torch.ones(8, 2)), spec.can_apply(torch.ones(8))
        (True, False)
        >>> str(spec.xla_spec(torch.ones(8, 2)))
        '{devices=[4,1]0,1,2,3}'
        >>> x = torch.ones(8, 2, device="xla")
        >>> spec.apply(x)
        >>> batch = spec.send(torch.ones(8, 2), "xla")
        >>> xs.wrap_if_sharded(batch).sharding_spec == xs.wrap_if_sharded(x).sharding_spec
        True
    """

    mesh: Mesh
    partition_spec: PartitionSpec
    minibatch: bool = False

    def __post_init__(self) -> None:
        self.mesh.axes(self.partition_spec)  # raises its errors here rather than in a loader's thread

    def can_apply(self, t: torch.Tensor) -> bool:
        """Tell whether a tensor has the right number of dimensions.

        Args:
            t: any tensor.
        """
        return t.dim() == len(self.partition_spec)

    def xla_spec(self, t: torch.Tensor) -> OpSharding | None:
        """Return the sharding of a tensor, None for a tensor that is not to be sharded.

        Args:
            t: any tensor.
        """
        return self.mesh.get_op_sharding(tuple(self.partition_spec)) if self.can_apply(t) else None

    def apply(self, t: torch.Tensor) -> None:
        """Shard a tensor in place.

        Args:
            t: a tensor on the device.

        Raises:
            AssertionError: it has another number of dimensions.
        """
        mark_sharding(t, self.mesh, self.partition_spec)

    def send(self, t: torch.Tensor, device: Any) -> torch.Tensor:
        """Return a CPU tensor on the devices, each of which is sent only its shard.

        Args:
            t: the tensor. With ``minibatch``, in several processes, it is this process's rows of the whole.
            device: the device.

        Raises:
            RuntimeError: the devices cannot share a batch evenly, or one of this process holds rows of another's.
        """
        sharding = self.xla_spec(t)
        if sharding is None:
            return t.to(device)
        count = runtime.addressable_runtime_device_count()
        if self.minibatch and t.dim() and t.size(0) % count:
            raise RuntimeError(
                "When minibatch is configured, the per-host batch size must be divisible by local runtime device "
                f"count. Per host input data shape = {t.size()}, local_runtime_device_count = {count}"
            )
        if self.minibatch and t.dim() and runtime.process_count() > 1:
            return self._send_rows(t, device, str(sharding))
        placed = torch.empty_like(t, device=device)
        partitioning.annotate_(placed, str(sharding))
        return placed.copy_(t)

    @staticmethod
    def _send_rows(t: torch.Tensor, device: Any, sharding: str) -> torch.Tensor:
        rows, first = t.size(0), t.size(0) * runtime.process_index()
        placed = torch.empty(rows * runtime.process_count(), *t.shape[1:], dtype=t.dtype, device=device)
        partitioning.annotate_(placed, sharding)
        parts = []
        for index in partitioning.regions(placed):
            start, stop = index[0].start - first, index[0].stop - first
            if start < 0 or stop > rows:
                raise RuntimeError(
                    f"minibatch: a device of process {runtime.process_index()} holds rows {index[0].start} to "
                    f"{index[0].stop} of the batch, the process has {first} to {first + rows}"
                )
            parts.append(t[(slice(start, stop), *index[1:])])
        partitioning.set_shards_(placed, parts)
        return placed
