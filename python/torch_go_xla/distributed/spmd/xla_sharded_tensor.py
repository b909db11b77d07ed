"""A tensor that knows the mesh that it is sharded over."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from torch.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard, _StridedShard
from torch.utils._python_dispatch import return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map_only

from ... import _XLAC, runtime
from ..._backend import partitioning
from ..._backend.op_sharding import OpSharding, ShardingType
from ..._backend.storage import is_saved_as_cpu
from ..tensor._dtensor import XlaDTensor, make_spec
from .mesh import Mesh, PartitionSpec

__all__ = [
    "XLAShard",
    "XLAShardedTensor",
    "aten",
    "partition_spec_of",
    "placements_of",
    "unwrap_sharded_tensor",
    "wrap_as_sharded_tensor",
]

aten = torch.ops.aten  # torch's ops, by torch_xla's name

# Ops whose result lies on the devices as their operand does.
_KEEP_LAYOUT = {aten.detach.default, aten.alias.default, aten.clone.default}

_aliased: Any = return_and_correct_aliasing


@dataclass
class XLAShard:
    """What one device held of a tensor when it was asked.

    Attributes:
        data: the shard on the CPU, filled up with zeros where the sizes do not divide.
        indices: where it lies in the tensor, without the zeros; ``...`` for one that is on every device.
        shard_device: the device, such as ``CPU:3``.
        replica_id: numbers the devices that hold the same part; 0 if it is one.

    Example:
        Four devices (``CPU_NUM_DEVICES=4``) hold three elements:

        >>> import torch, torch_go_xla.runtime as xr, torch_go_xla.distributed.spmd as xs
        >>> xr.use_spmd()
        >>> x = xs.mark_sharding(torch.arange(3.0, device="xla"), xs.get_1d_mesh("x"), ("x",))
        >>> [(shard.shard_device, shard.data.tolist(), shard.unpadded_data.tolist()) for shard in x.local_shards[2:]]
        [('CPU:2', [2.0], [2.0]), ('CPU:3', [0.0], [])]
    """

    data: torch.Tensor
    indices: list[slice] | EllipsisType
    shard_device: str
    replica_id: int

    def _inner(self) -> tuple[slice, ...] | EllipsisType:
        if isinstance(self.indices, EllipsisType):
            return ...
        return tuple(slice(0, s.stop - s.start) for s in self.indices)

    @property
    def unpadded_data(self) -> torch.Tensor:
        """The data without the zeros; setting it leaves them."""
        return self.data[self._inner()]

    @unpadded_data.setter
    def unpadded_data(self, t: torch.Tensor) -> None:
        self.data[self._inner()] = t


class XLAShardedTensor(XlaDTensor):
    """A tensor of the xla device, with the mesh that it was marked with. What is computed with it is one too.

    Together with a DTensor it counts as the DTensor that it is, if it has the same mesh, else as a plain tensor.

    Attributes:
        global_tensor: the tensor itself.
        mesh_shape: the shape of the mesh; None for a result, whose sharding is the compiler's choice.
        partition_spec: as `mark_sharding` takes it; None likewise.

    Example:
        Four devices (``CPU_NUM_DEVICES=4``):

        >>> import torch, torch_go_xla.runtime as xr, torch_go_xla.distributed.spmd as xs
        >>> from torch.distributed.tensor import Replicate
        >>> xr.use_spmd()
        >>> mesh = xs.get_1d_mesh("x")
        >>> x = xs.mark_sharding(torch.arange(4.0, device="xla"), mesh, ("x",))
        >>> x.sharding_spec, x.sharding_type.name, x.placements
        ('{devices=[4]0,1,2,3}', 'TILED', (Shard(dim=0),))
        >>> shards = x.local_shards
        >>> for shard in shards:
        ...     shard.data += 10
        >>> x.load_local_shards_(shards)
        >>> x.cpu().tolist()
        [10.0, 11.0, 12.0, 13.0]
        >>> x.to_dtensor().placements
        (Shard(dim=0),)
        >>> x.redistribute(mesh, [Replicate()]).sharding_type.name
        'REPLICATED'
    """

    __slots__ = ["_cached_spec", "_mesh", "global_tensor", "mesh_shape", "partition_spec"]

    global_tensor: torch.Tensor
    mesh_shape: tuple[int, ...] | None
    partition_spec: PartitionSpec | None
    _mesh: Mesh | None
    _cached_spec: DTensorSpec | None

    def __new__(
        cls,
        elem: torch.Tensor,
        mesh_shape: Sequence[int] | None = None,
        partition_spec: PartitionSpec | None = None,
        *,
        mesh: Mesh | None = None,
        requires_grad: bool = False,
    ) -> XLAShardedTensor:
        """Wrap a tensor; its gradient does not pass through, for which there is `wrap_as_sharded_tensor`."""
        self: XLAShardedTensor = torch.Tensor._make_wrapper_subclass(
            cls,
            elem.size(),
            strides=elem.stride(),
            storage_offset=elem.storage_offset(),
            dtype=elem.dtype,
            layout=elem.layout,
            device=elem.device,
            requires_grad=requires_grad,
        )
        self._mesh = mesh
        self.mesh_shape = None if mesh_shape is None else tuple(mesh_shape)
        self.partition_spec = partition_spec
        if isinstance(elem, XLAShardedTensor):
            self._mesh = mesh or elem._mesh
            self.mesh_shape = self.mesh_shape or elem.mesh_shape
            self.partition_spec = partition_spec or elem.partition_spec
            elem = elem.global_tensor
        self.global_tensor = elem.detach() if requires_grad else elem
        self._cached_spec = None
        return self

    def __repr__(self) -> str:  # type: ignore[override]
        return f"XLAShardedTensor({self.global_tensor})"

    def __deepcopy__(self, memo: dict[int, Any]) -> XLAShardedTensor:
        if id(self) in memo:
            return memo[id(self)]  # type: ignore[no-any-return]
        value = copy.deepcopy(self.global_tensor, memo)
        made = XLAShardedTensor(
            value, self.mesh_shape, self.partition_spec, mesh=self._mesh, requires_grad=self.requires_grad
        )
        if isinstance(self, nn.Parameter):
            made._is_param = True
        memo[id(self)] = made
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        if is_saved_as_cpu():
            return self.global_tensor.__reduce_ex__(protocol)  # type: ignore[no-untyped-call]
        known = (self.mesh_shape, self.partition_spec, self._mesh)
        return _rebuild, (self.global_tensor, self.sharding_spec, *known, self.requires_grad)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if any(issubclass(t, DTensor) and not issubclass(t, XLAShardedTensor) for t in types):
            leaves = tree_leaves((args, kwargs))
            other = next(t for t in leaves if isinstance(t, DTensor) and not isinstance(t, XLAShardedTensor))
            as_operand = functools.partial(_as_operand, other.device_mesh)
            mixed_args, mixed_kwargs = tree_map_only(XLAShardedTensor, as_operand, (args, kwargs))
            result = func(*mixed_args, **mixed_kwargs)
            return args[0] if func._schema.is_mutable and isinstance(args[0], XLAShardedTensor) else result
        of = args[0] if func in _KEEP_LAYOUT else None

        def wrap(t: torch.Tensor) -> torch.Tensor:
            if t.device.type != "xla":
                return t
            if of is None:
                return XLAShardedTensor(t)
            return XLAShardedTensor(t, of.mesh_shape, of.partition_spec, mesh=of._mesh)

        plain_args, plain_kwargs = tree_map_only(XLAShardedTensor, unwrap_sharded_tensor, (args, kwargs))
        result = tree_map_only(torch.Tensor, wrap, func(*plain_args, **plain_kwargs))
        return _aliased(func, args, kwargs, result)

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    # ---- shards ----

    @property
    def sharding_spec(self) -> str:
        """The sharding, in GSPMD's form with a list of devices; "" if there is none."""
        return _XLAC._get_xla_sharding_spec(self.global_tensor)

    @property
    def sharding_type(self) -> ShardingType | None:
        """The form of the sharding; None if there is none."""
        number = _XLAC._get_xla_sharding_type(self.global_tensor)
        return None if number is None else ShardingType(number)

    def _shard_sizes(self) -> list[int]:
        tiles = OpSharding.parse(self.sharding_spec or "{replicated}").tiles or (1,) * self.dim()
        return [-(-n // k) for n, k in zip(self.shape, tiles, strict=True)]

    @property
    def local_shards(self) -> list[XLAShard]:
        """What each device of this process holds, as copies on the CPU; computes the tensor."""
        found = partitioning.shards(self.global_tensor)
        sizes = self._shard_sizes()
        whole = self.sharding_type in (None, ShardingType.REPLICATED)
        result = []
        for s in found:
            padding = [n for d in reversed(range(self.dim())) for n in (0, sizes[d] - s.data.size(d))]
            result.append(
                XLAShard(
                    F.pad(s.data, padding) if any(padding) else s.data,
                    ... if whole else [slice(i.start, i.stop, 1) for i in s.index],
                    f"{runtime.device_type()}:{s.device}",
                    s.replica_id,
                )
            )
        return result

    def load_local_shards_(self, shards: Sequence[XLAShard]) -> None:
        """Replace what the devices hold; each is sent its shard.

        Args:
            shards: one for each device of this process, of the shapes that `local_shards` gives.

        Raises:
            RuntimeError: the tensor is not sharded, a device's shard is missing, or one has another shape.
        """
        if self.sharding_type in (None, ShardingType.REPLICATED):
            raise RuntimeError("load_local_shards_: the tensor is not sharded")
        held = partitioning.shards(self.global_tensor)
        given = {int(s.shard_device.rsplit(":", 1)[1]): s for s in shards}
        if sorted(given) != [s.device for s in held] or len(shards) != len(held):
            raise RuntimeError(f"load_local_shards_: one shard for each of {len(held)} devices is needed")
        sizes = torch.Size(self._shard_sizes())
        for device, shard in given.items():
            if shard.data.shape != sizes:
                raise RuntimeError(
                    f"load_local_shards_: the shard of device {device} must have the shape {tuple(sizes)}, "
                    f"not {tuple(shard.data.shape)}"
                )
        partitioning.set_shards_(
            self.global_tensor, [given[s.device].data[tuple(slice(0, n) for n in s.data.shape)] for s in held]
        )

    # ---- as a DTensor ----

    @property
    def _local_tensor(self) -> torch.Tensor:  # type: ignore[override]
        return self.global_tensor

    @property
    def _spec(self) -> DTensorSpec:  # type: ignore[override]
        """The mesh and the placements as torch's; ValueError if they are not known."""
        if self._cached_spec is None:
            if self.mesh_shape is None or self.partition_spec is None:
                raise ValueError(
                    "mesh_shape and partition_spec must be known for a DTensorSpec: this tensor is a result, whose "
                    "sharding is the compiler's choice; give them with wrap_as_sharded_tensor or mark_sharding"
                )
            mesh = _mesh_of(self.mesh_shape, self._mesh)
            t = self.global_tensor
            meta = TensorMeta(t.shape, t.stride(), t.dtype)
            placements = placements_of(mesh, self.partition_spec)
            self._cached_spec = DTensorSpec(mesh.get_device_mesh(), placements, tensor_meta=meta)
        return self._cached_spec

    @property
    def placements(self) -> tuple[Placement, ...]:
        """The placements, by axis of the mesh.

        Raises:
            ValueError: they are not known: the tensor is a result.
        """
        try:
            return self._spec.placements
        except ValueError:
            raise ValueError(
                "Placements not available: XLAShardedTensor requires mesh_shape and partition_spec to be set. "
                "Use mark_sharding() to properly initialize sharding information."
            ) from None

    def invalidate_spec_cache(self) -> None:
        """Forget the spec, after a change of ``mesh_shape`` or ``partition_spec``.

        Example:
            >>> import torch, torch_go_xla.runtime as xr, torch_go_xla.distributed.spmd as xs
            >>> xr.use_spmd()
            >>> x = xs.mark_sharding(torch.ones(4, 4, device="xla"), xs.get_1d_mesh("x"), ("x", None))
            >>> x.partition_spec = (None, "x")
            >>> x.invalidate_spec_cache()
            >>> x.placements
            (Shard(dim=1),)
        """
        self._cached_spec = None

    def to_dtensor(self) -> DTensor:
        """Return the tensor as a DTensor, of the same value. Gradients pass through.

        Raises:
            ValueError: its mesh is not known: the tensor is a result.
        """
        return _ToDTensor.apply(self)  # type: ignore[no-any-return]

    def redistribute(
        self,
        device_mesh: Mesh | DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        async_op: bool = False,
        **options: Any,
    ) -> DTensor:
        """Shard the tensor otherwise, in place, or with ``async_op`` a copy of it.

        Args:
            device_mesh: the mesh. With torch's mesh, or none, it is ``DTensor.redistribute``, and the tensor stays as
                it is.
            placements: one for each axis of the mesh.
            async_op: leave the tensor as it is.
            options: those of ``DTensor.redistribute``.

        Returns:
            The tensor as it is sharded now.

        Raises:
            ValueError: another number of placements than the mesh has axes.
            IndexError: the tensor does not have a dimension.
            NotImplementedError: a placement is Partial.
        """
        if not isinstance(device_mesh, Mesh):
            return self.to_dtensor().redistribute(device_mesh, placements, async_op=async_op, **options)
        shape, placements = device_mesh.mesh_shape, placements or ()
        if len(placements) != len(shape):
            raise ValueError(f"Number of placements ({len(placements)}) must match mesh dimensions ({len(shape)})")
        spec = partition_spec_of(placements, self.dim())
        value = self.global_tensor.clone() if async_op else self.global_tensor
        _XLAC._xla_annotate_custom_sharding(value, device_mesh.get_op_sharding(spec))
        return XLAShardedTensor(value, shape, spec, mesh=device_mesh)


def _rebuild(
    t: torch.Tensor,
    sharding: str,
    mesh_shape: tuple[int, ...] | None,
    partition_spec: PartitionSpec | None,
    mesh: Mesh | None,
    requires_grad: bool,
) -> XLAShardedTensor:
    """Return the tensor that was saved."""
    if sharding:
        partitioning.annotate_(t, sharding)
    return XLAShardedTensor(t, mesh_shape, partition_spec, mesh=mesh, requires_grad=requires_grad)


def _mesh_of(shape: tuple[int, ...], mesh: Mesh | None) -> Mesh:
    """Return the mesh of a shape; where only the shape is known, of all devices in order."""
    if mesh is None or mesh.mesh_shape != shape:
        return Mesh(range(math.prod(shape)), shape)
    return mesh


def _as_operand(mesh: DeviceMesh, t: XLAShardedTensor) -> torch.Tensor:
    """Return what counts in an op with a DTensor of a mesh."""
    if t.mesh_shape is None or t.partition_spec is None:
        return t.global_tensor
    own = _mesh_of(t.mesh_shape, t._mesh)
    if own.get_logical_mesh().tolist() != mesh.mesh.tolist():
        return t.global_tensor
    return XlaDTensor(
        t.global_tensor, make_spec(t.global_tensor, mesh, placements_of(own, t.partition_spec)), requires_grad=False
    )


class _ToDTensor(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, t: XLAShardedTensor) -> XlaDTensor:
        return XlaDTensor(t.global_tensor.detach(), t._spec, requires_grad=False)

    @staticmethod
    def backward(ctx: Any, grad: DTensor) -> XLAShardedTensor:
        return XLAShardedTensor(grad._local_tensor)


class _FromDTensor(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, t: DTensor, mesh: Mesh) -> XLAShardedTensor:
        ctx.spec = t._spec
        spec = partition_spec_of(t.placements, t.dim())
        return XLAShardedTensor(t._local_tensor.detach(), mesh.mesh_shape, spec, mesh=mesh)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[DTensor, None]:
        return XlaDTensor(unwrap_sharded_tensor(grad), ctx.spec, requires_grad=False), None


def placements_of(mesh: Mesh, partition_spec: PartitionSpec) -> tuple[Placement, ...]:
    """Return torch's placements, one for each axis of a mesh, of a partition spec.

    Args:
        mesh: the mesh.
        partition_spec: as for `mark_sharding`.

    Raises:
        ValueError: the mesh does not have an axis.

    Example:
        >>> import torch_go_xla.runtime as xr, torch_go_xla.distributed.spmd as xs
        >>> from torch_go_xla.distributed.spmd.xla_sharded_tensor import placements_of
        >>> xr.use_spmd()
        >>> placements_of(xs.Mesh(range(4), (2, 2), ("data", "model")), (None, "data"))
        (Shard(dim=1), Replicate())
    """
    placements: list[Placement] = [Replicate()] * len(mesh.mesh_shape)
    for dim, axes in enumerate(mesh.axes(partition_spec)):
        for k, axis in enumerate(axes):
            # torch splits a dimension by the axes in the order of the mesh. It can be told into how many pieces
            # the later ones have split it before.
            split = math.prod(mesh.mesh_shape[a] for a in axes[:k] if a > axis)
            placements[axis] = Shard(dim) if split == 1 else _StridedShard(dim, split_factor=split)
    return tuple(placements)


def partition_spec_of(placements: Sequence[Placement], ndim: int) -> PartitionSpec:
    """Return the partition spec of torch's placements.

    Args:
        placements: one for each axis of a mesh.
        ndim: the number of dimensions of the tensor.

    Raises:
        IndexError: there is no such dimension.
        NotImplementedError: a placement is Partial or a strided shard.

    Example:
        >>> from torch.distributed.tensor import Replicate, Shard
        >>> from torch_go_xla.distributed.spmd.xla_sharded_tensor import partition_spec_of
        >>> partition_spec_of([Shard(1), Replicate()], ndim=2)
        (None, 0)
    """
    dims: list[tuple[int, ...]] = [()] * ndim
    for axis, placement in enumerate(placements):
        if isinstance(placement, Shard):
            if not -ndim <= placement.dim < ndim:
                raise IndexError(f"Shard dimension {placement.dim} is out of bounds for tensor with {ndim} dimensions")
            dims[placement.dim] += (axis,)
        elif isinstance(placement, (Partial, _StridedShard)):
            raise NotImplementedError(f"{placement} has no partition spec: use Shard or Replicate")
    return tuple(axes if len(axes) > 1 else axes[0] if axes else None for axes in dims)


class _Wrap(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        t: torch.Tensor,
        mesh_shape: Sequence[int] | None,
        partition_spec: PartitionSpec | None,
        mesh: Mesh | None,
    ) -> XLAShardedTensor:
        return XLAShardedTensor(t.detach(), mesh_shape, partition_spec, mesh=mesh)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        return unwrap_sharded_tensor(grad), None, None, None


def wrap_as_sharded_tensor(
    t: torch.Tensor,
    mesh_shape: Sequence[int] | None = None,
    partition_spec: PartitionSpec | None = None,
    *,
    mesh: Mesh | None = None,
) -> XLAShardedTensor:
    """Return a tensor as an `XLAShardedTensor` that passes gradients on, or give an `XLAShardedTensor` another mesh.

    Nothing is moved: `mark_sharding` does that.

    Args:
        t: the tensor. A DTensor brings its mesh, which must have all devices, and placements, none of them Partial.
        mesh_shape: the shape of the mesh.
        partition_spec: as for `mark_sharding`.
        mesh: the mesh itself, if it is known.

    Example:
        >>> import torch, torch_go_xla.runtime as xr, torch_go_xla.distributed.spmd as xs
        >>> xr.use_spmd()
        >>> xs.wrap_as_sharded_tensor(torch.ones(4, device="xla"), (4,), (None,)).placements
        (Replicate(),)
    """
    if isinstance(t, XlaDTensor) and not isinstance(t, XLAShardedTensor):
        ranks = t.device_mesh.mesh
        whole = Mesh(ranks.flatten().tolist(), tuple(ranks.shape), t.device_mesh.mesh_dim_names)
        return _FromDTensor.apply(t, whole)  # type: ignore[no-any-return]
    if not isinstance(t, XLAShardedTensor):
        if t.requires_grad and torch.is_grad_enabled():
            return _Wrap.apply(t, mesh_shape, partition_spec, mesh)  # type: ignore[no-any-return]
        return XLAShardedTensor(t, mesh_shape, partition_spec, mesh=mesh)
    if mesh_shape is not None:
        t._mesh, t.mesh_shape = mesh, tuple(mesh_shape)
    if partition_spec is not None:
        t.partition_spec = partition_spec
    t.invalidate_spec_cache()
    return t


def unwrap_sharded_tensor(t: torch.Tensor) -> torch.Tensor:
    """Return the plain tensor of an `XLAShardedTensor`, another tensor as it is.

    Args:
        t: any tensor.

    Example:
        >>> import torch, torch_go_xla.runtime as xr, torch_go_xla.distributed.spmd as xs
        >>> xr.use_spmd()
        >>> x = torch.ones(4, device="xla")
        >>> xs.unwrap_sharded_tensor(xs.mark_sharding(x, xs.get_1d_mesh(), (0,))) is x
        True
    """
    return t.global_tensor if isinstance(t, XLAShardedTensor) else t
