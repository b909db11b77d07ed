"""Meshes: the devices as an array with named axes, over which the dimensions of tensors are sharded."""

from __future__ import annotations

import ast
import functools
import itertools
import math
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ... import runtime
from ..._backend import html
from ..._backend.op_sharding import OpSharding

__all__ = [
    "Array",
    "HybridMesh",
    "Mesh",
    "PartitionSpec",
    "get_1d_mesh",
    "get_global_mesh",
    "lay_on_torus",
    "set_global_mesh",
]

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

PartitionSpec = tuple[tuple[int | str, ...] | int | str | None, ...]
"""For each dimension of a tensor the mesh axis, by number or name, that it is sharded over; a tuple of axes, the one
with the largest pieces first; None for a dimension that is not sharded. Along the other axes are copies."""

Array = npt.NDArray[np.int64]  # of device numbers


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)


class Mesh:
    """The devices of all processes as an array.

    Args:
        device_ids: the devices, in row-major order of the mesh.
        mesh_shape: the sizes of the mesh.
        axis_names: the names of its axes, if they have names.

    Raises:
        AssertionError: the mesh does not have each device once, or not one name for each axis.

    Example:
        Four devices (``CPU_NUM_DEVICES=4``):

        >>> import torch_go_xla.runtime as xr, torch_go_xla.distributed.spmd as xs
        >>> xr.use_spmd()
        >>> mesh = xs.Mesh(range(4), (2, 2), ("data", "model"))
        >>> mesh.size(), dict(mesh.shape()), mesh.get_logical_mesh().tolist()
        (4, {'data': 2, 'model': 2}, [[0, 1], [2, 3]])
        >>> mesh.get_axis_name_idx("model"), mesh.axes((None, ("data", "model")))
        (1, [(), (0, 1)])
        >>> str(mesh.get_op_sharding(("model", None)))
        '{devices=[2,1,2]0,2,1,3 last_tile_dim_replicate}'
        >>> mesh.get_device_mesh().mesh_dim_names
        ('data', 'model')
        >>> xs.Mesh.from_str(str(mesh)).mesh_shape
        (2, 2)
    """

    def __init__(
        self, device_ids: Iterable[int], mesh_shape: tuple[int, ...], axis_names: tuple[str, ...] | None = None
    ) -> None:
        ids: Array = device_ids if isinstance(device_ids, np.ndarray) else np.array(list(device_ids), dtype=np.int64)
        count, size = runtime.global_runtime_device_count(), math.prod(mesh_shape)
        _require(
            len(ids) == count,
            f"Number of device IDs ({len(ids)}) must match the global number of devices ({count})",
        )
        if axis_names is not None:
            _require(
                len(mesh_shape) == len(axis_names),
                f"Number of axis names ({len(axis_names)}) must match mesh dimensions ({len(mesh_shape)})",
            )
            _require(len(set(axis_names)) == len(axis_names), f"Axis names must be unique, got: {axis_names}")
        _require(len(ids) == size, f"Number of device IDs ({len(ids)}) must match mesh size ({size})")
        _require(len(set(ids.tolist())) == len(ids), f"Device IDs must be unique, got: {ids}")
        _require(
            all(0 <= d < size for d in ids.tolist()),
            f"Device IDs must be less than mesh size ({size}), got: {ids}",
        )
        self.device_ids = ids
        self.mesh_shape = tuple(mesh_shape)
        self.axis_names = axis_names
        self._shardings: dict[PartitionSpec, OpSharding] = {}

    def size(self) -> int:
        """Return the number of devices."""
        return math.prod(self.mesh_shape)

    def shape(self) -> OrderedDict[Any, int]:
        """Return the sizes by the names of the axes, by their numbers if they have no names."""
        return OrderedDict(zip(self.axis_names or range(len(self.mesh_shape)), self.mesh_shape, strict=True))

    def get_logical_mesh(self) -> Array:
        """Return the devices as an array of the mesh's shape."""
        return self.device_ids.reshape(self.mesh_shape)

    def get_axis_name_idx(self, name: str) -> int | None:
        """Return the number of an axis; None if there is none of that name.

        Args:
            name: the name of the axis.
        """
        names = self.axis_names or ()
        return names.index(name) if name in names else None

    def axes(self, partition_spec: PartitionSpec) -> list[tuple[int, ...]]:
        """Return the numbers of the axes that each dimension is sharded over.

        Args:
            partition_spec: for each dimension an axis, by number or name, a tuple of axes, or None.

        Raises:
            ValueError: the mesh does not have an axis.
            AssertionError: an axis occurs twice or is out of range.
        """
        dims = []
        for entry in partition_spec:
            parts = entry if isinstance(entry, tuple) else () if entry is None else (entry,)
            dims.append(tuple(self._axis(part) for part in parts))
        used = [axis for dim in dims for axis in dim]
        _require(
            all(0 <= axis < len(self.mesh_shape) for axis in used),
            f"partition_spec ({partition_spec}) contains out of bound index into mesh_shape.",
        )
        _require(
            len(set(used)) == len(used),
            f"Each device mesh dimension should appear at most once in partition_spec {partition_spec}.",
        )
        return dims

    def _axis(self, part: Any) -> int:
        if isinstance(part, int):
            return part
        if isinstance(part, str):
            axis = self.get_axis_name_idx(part)
            if axis is None:
                raise ValueError(f"Axis name {part} is not defined in the given mesh")
            return axis
        _require(not isinstance(part, tuple), "Partition spec cannot contain nested tuples")
        raise ValueError(f"Spec type {type(part)} is not supported in partition spec")

    def get_op_sharding(self, partition_spec: PartitionSpec) -> OpSharding:
        """Return the sharding of tensors that are partitioned so.

        Args:
            partition_spec: as for `axes`.

        Raises:
            ValueError: the mesh does not have an axis.
            AssertionError: an axis occurs twice or is out of range.
        """
        known = self._shardings.get(partition_spec)
        if known is None:
            dims = self.axes(partition_spec)
            sharded = [axis for dim in dims for axis in dim]
            rest = [axis for axis in range(len(self.mesh_shape)) if axis not in sharded]
            devices = self.get_logical_mesh().transpose(sharded + rest).flatten().tolist()
            tiles = [math.prod(self.mesh_shape[axis] for axis in dim) for dim in dims]
            known = self._shardings[partition_spec] = OpSharding.tiled(tiles, devices)
        return known

    def get_device_mesh(self) -> DeviceMesh:
        """Return the mesh as torch's."""
        from torch.distributed.device_mesh import DeviceMesh

        return DeviceMesh("xla", self.get_logical_mesh().tolist(), mesh_dim_names=self.axis_names)

    def _repr_html_(self) -> str:
        names = self.axis_names or range(len(self.mesh_shape))
        title = " × ".join(f"{name}: {size}" for name, size in zip(names, self.mesh_shape, strict=True))
        devices = self.get_logical_mesh().reshape((-1, self.mesh_shape[-1]) if self.mesh_shape else (1, 1))
        kind = runtime.device_type()
        return html.grid(([(d, f"{kind} {d}") for d in row] for row in devices.tolist()), f"mesh of {title}")

    def __str__(self) -> str:
        return (
            f"{{'device_ids': {self.device_ids.tolist()}, 'mesh_shape': {self.mesh_shape}, "
            f"'axis_names': {self.axis_names}}}"
        )

    @classmethod
    def from_str(cls, mesh_str: str) -> Mesh | None:
        """Return the mesh of a text that `str` gave; None for another text.

        Args:
            mesh_str: the text.
        """
        try:
            fields = ast.literal_eval(mesh_str.replace("Mesh", ""))
            return Mesh(fields["device_ids"], fields["mesh_shape"], fields["axis_names"])
        except (ValueError, SyntaxError, KeyError, TypeError):
            return None


class HybridMesh(Mesh):
    """A mesh that follows the network: fast links within a slice of devices, slow ones between slices.

    Args:
        ici_mesh_shape: the mesh of the devices of a slice, the axis with the most traffic last.
        dcn_mesh_shape: the mesh of the slices, with as many axes; one slice by default.
        axis_names: the names of the axes. The sizes of the mesh are the products of both.

    Raises:
        ValueError: there are other numbers of slices, or of devices in a slice.

    Example:
        Four devices (``CPU_NUM_DEVICES=4``), which are one slice:

        >>> import torch_go_xla.runtime as xr, torch_go_xla.distributed.spmd as xs
        >>> xr.use_spmd()
        >>> xs.HybridMesh(ici_mesh_shape=(2, 2), axis_names=("data", "model")).mesh_shape
        (2, 2)
    """

    def __init__(
        self,
        *,
        ici_mesh_shape: tuple[int, ...],
        dcn_mesh_shape: tuple[int, ...] | None = None,
        axis_names: tuple[str, ...] | None = None,
    ) -> None:
        dcn_mesh_shape = dcn_mesh_shape or (1,) * len(ici_mesh_shape)
        _require(len(ici_mesh_shape) == len(dcn_mesh_shape), "ici_mesh_shape and dcn_mesh_shape differ in length")
        self.ici_mesh_shape = ici_mesh_shape
        self.dcn_mesh_shape = dcn_mesh_shape
        attributes = runtime.global_runtime_device_attributes()
        self.device_attributes = sorted(attributes, key=lambda a: int(a["name"].rsplit(":", 1)[1]))
        slices: defaultdict[int, list[int]] = defaultdict(list)
        for device, attribute in enumerate(self.device_attributes):
            slices[attribute.get("slice_index", 0)].append(device)
        if "slice_index" in self.device_attributes[0] and math.prod(dcn_mesh_shape) == 1:
            raise ValueError("Provide dcn_mesh_shape to create a mesh for multislice")
        if "slice_index" not in self.device_attributes[0] and math.prod(dcn_mesh_shape) > 1:
            raise ValueError("Invalid dcn_mesh_shape for single slice mesh")
        if math.prod(dcn_mesh_shape) != len(slices):
            raise ValueError(
                f"Number of slices {len(slices)} must equal the product of dcn_mesh_shape {dcn_mesh_shape}"
            )
        blocks = [self._slice_mesh(slices[key]) for key in sorted(slices)]
        # [slices by axis, devices of a slice by axis] → both of an axis side by side → joined
        rank = len(ici_mesh_shape)
        stacked = np.stack(blocks).reshape(dcn_mesh_shape + ici_mesh_shape)
        order = [axis for pair in zip(range(rank), range(rank, 2 * rank), strict=True) for axis in pair]
        shape = tuple(n * m for n, m in zip(ici_mesh_shape, dcn_mesh_shape, strict=True))
        super().__init__(stacked.transpose(order).flatten(), shape, axis_names)

    def _slice_mesh(self, devices: Sequence[int]) -> Array:
        if math.prod(self.ici_mesh_shape) != len(devices):
            raise ValueError(
                f"Number of devices {len(devices)} must equal the product of mesh_shape {self.ici_mesh_shape}"
            )
        places: list[Any] = [self.device_attributes[d].get("coords") for d in devices]
        if None in places:  # no torus: the devices are as near to each other in one order as in another
            return np.array(devices).reshape(self.ici_mesh_shape)
        torus: Array = np.zeros([max(axis) + 1 for axis in zip(*places, strict=True)], dtype=np.int64)
        for place, device in zip(places, devices, strict=True):
            torus[tuple(place)] = device
        return lay_on_torus(torus, self.ici_mesh_shape)


def _factorings(size: int, available: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the ways to write a size as a product of divisors of the available sizes."""
    if not available:
        if size == 1:
            yield ()
        return
    for part in range(1, available[0] + 1):
        if available[0] % part == 0 and size % part == 0:
            for rest in _factorings(size // part, available[1:]):
                yield (part, *rest)


def _cost(free: Sequence[int], whole: Sequence[int], choice: Sequence[int]) -> tuple[int, int, int, list[int]]:
    """Return what `lay_on_torus` has against parts of the axes of a torus, of which some are taken already."""
    taken = [axis for axis, part in enumerate(choice) if part > 1]
    split = math.prod(choice[axis] for axis in taken if choice[axis] != whole[axis])
    shared = sum(free[axis] != whole[axis] for axis in taken)
    return split, -len(taken), shared, taken


def lay_on_torus(torus: Array, mesh_shape: Sequence[int]) -> Array:
    """Return the devices of a torus as a mesh whose axes are as good rings as there are.

    The last axis of the mesh, which has the most traffic, is served first. If the sizes allow, it gets whole axes of
    the torus, as many as possible, since each adds links. It prefers axes that no other has a part of.

    Args:
        torus: the device at each place, an array of integers.
        mesh_shape: the sizes of the mesh, whose product is the number of devices.

    Returns:
        The devices as an array of the mesh's shape.

    Raises:
        ValueError: the torus cannot be such a mesh.

    Example:
        >>> import numpy as np
        >>> from torch_go_xla.distributed.spmd.mesh import lay_on_torus
        >>> lay_on_torus(np.arange(8).reshape(2, 4), (4, 2)).tolist()
        [[0, 4], [1, 5], [2, 6], [3, 7]]
    """
    free = list(torus.shape)
    parts: list[tuple[int, ...]] = []  # by axis of the mesh, last first: what it takes of each axis of the torus
    for size in reversed(mesh_shape):
        choices = list(_factorings(size, free))
        if not choices:
            raise ValueError(f"a torus of shape {torus.shape} cannot be a mesh of shape {tuple(mesh_shape)}")
        best = min(choices, key=functools.partial(_cost, free, torus.shape))
        parts.append(best)
        free = [n // part for n, part in zip(free, best, strict=True)]
    # Each axis of the torus is cut into one piece for each axis of the mesh; those served first get neighbours.
    pieces = [part for axis in range(torus.ndim) for part in (taken[axis] for taken in reversed(parts))]
    rank = len(mesh_shape)
    order = [axis * rank + k for k, axis in itertools.product(range(rank), range(torus.ndim))]
    return torus.reshape(pieces).transpose(order).reshape(tuple(mesh_shape))


def get_1d_mesh(axis_name: str | None = None) -> Mesh:
    """Return the mesh of all devices along one axis.

    Args:
        axis_name: the name of the axis, if it has one.

    Example:
        Four devices (``CPU_NUM_DEVICES=4``):

        >>> import torch_go_xla.runtime as xr, torch_go_xla.distributed.spmd as xs
        >>> xr.use_spmd()
        >>> dict(xs.get_1d_mesh("data").shape())
        {'data': 4}
    """
    count = runtime.global_runtime_device_count()
    return Mesh(range(count), (count,), None if axis_name is None else (axis_name,))


_global_mesh: Mesh | None = None  # of all threads


def set_global_mesh(mesh: Mesh | None) -> None:
    """Set the mesh of this process that functions take where none is given.

    Args:
        mesh: the mesh; None for none.

    Example:
        >>> import torch_go_xla.runtime as xr, torch_go_xla.distributed.spmd as xs
        >>> xr.use_spmd()
        >>> xs.set_global_mesh(xs.get_1d_mesh("data"))
        >>> xs.get_global_mesh().axis_names
        ('data',)
        >>> xs.set_global_mesh(None)
    """
    global _global_mesh
    _global_mesh = mesh


def get_global_mesh() -> Mesh | None:
    """Return the mesh that `set_global_mesh` set; None if there is none.

    Example:
        >>> import torch_go_xla.distributed.spmd as xs
        >>> xs.get_global_mesh() is None
        True
    """
    return _global_mesh
