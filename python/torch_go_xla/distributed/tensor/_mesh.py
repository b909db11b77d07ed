"""Meshes of the devices of this process, or of the processes of a job."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh

from ..._backend import partitioning


class XlaDeviceMesh(DeviceMesh):
    """A mesh of the devices of SPMD; rank r is device r.

    The process stands at the mesh's first device: that is its rank and its coordinate. Making one turns SPMD on.

    Args:
        device_type: ``"xla"``.
        mesh: the ranks, nested lists or a tensor of integers.
        options: those of ``torch.distributed.device_mesh.DeviceMesh``, such as ``mesh_dim_names``.

    Raises:
        RuntimeError: the mesh has more ranks than there are devices, or its size does not divide their number.
        ValueError: a rank is not a device.

    Example:
        Four devices (``CPU_NUM_DEVICES=4``):

        >>> import torch_go_xla.runtime as xr
        >>> from torch.distributed.device_mesh import init_device_mesh
        >>> xr.use_spmd()
        >>> mesh = init_device_mesh("xla", (2, 2), mesh_dim_names=("data", "model"))
        >>> type(mesh).__name__, mesh["model"].mesh.tolist(), mesh.get_rank(), mesh.get_local_rank("data")
        ('XlaDeviceMesh', [0, 1], 0, 0)
    """

    def __init__(self, device_type: str, mesh: Any = None, **options: Any) -> None:
        partitioning.use_spmd()
        ranks = options.get("_rank_map")
        if ranks is None:
            ranks = torch.as_tensor(mesh, dtype=torch.int, device="cpu")
        self._rank = int(ranks.flatten()[0]) if ranks.numel() else 0
        super().__init__(device_type, mesh, **options)
        self._check_devices()
        self._coordinate_on_dim = (0,) * self.ndim
        self._dim_group_names = []

    def _check_devices(self) -> None:
        count = partitioning.num_devices()
        if self._rank_map.numel() > count:
            raise RuntimeError(
                f"Mesh should not be bigger than default world size {count}, but found {self._rank_map.numel()} ranks! "
                f"This process has {count} xla device(s)."
            )
        if missing := [r for r in self._flatten_rank_map if not 0 <= r < count]:
            raise ValueError(
                f"Rank {missing[0]} is out of range. Valid ranks are 0 to {count - 1} (world_size={count})"
            )
        if count % self._rank_map.numel():
            raise RuntimeError(f"Mesh of {self._rank_map.numel()} ranks does not divide the {count} xla devices")

    def __setstate__(self, state: dict[str, Any]) -> None:
        partitioning.use_spmd()
        super().__setstate__(state)
        self._check_devices()

    @property
    def mesh(self) -> torch.Tensor:
        """The ranks, shape of the mesh; of a submesh, those that lie with the first device."""
        return parallel_ranks(self)[0]

    def get_rank(self) -> int:
        """Return the rank that the process stands at, the mesh's first."""
        return self._rank

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """Return the process's coordinate along an axis: 0.

        Args:
            mesh_dim: the axis, by number or name; needed if there are several.

        Raises:
            RuntimeError: there are several axes, and none is given.
        """
        self._mesh_dim(mesh_dim)
        return 0

    def get_group(self, mesh_dim: int | str | None = None) -> Any:
        """Raise an error where others return a process group: one process drives all devices of the mesh.

        Args:
            mesh_dim: the axis, by number or name.

        Raises:
            RuntimeError: always.

        Example:
            >>> import torch_go_xla.runtime as xr
            >>> from torch.distributed.device_mesh import init_device_mesh
            >>> xr.use_spmd()
            >>> init_device_mesh("xla", (4,)).get_group()
            Traceback (most recent call last):
            RuntimeError: DeviceMesh process groups not initialized! One process drives the devices of an xla mesh.
        """
        self._mesh_dim(mesh_dim)
        raise RuntimeError("DeviceMesh process groups not initialized! One process drives the devices of an xla mesh.")

    def _mesh_dim(self, mesh_dim: int | str | None) -> int:
        if mesh_dim is None:
            if self.ndim > 1:
                raise RuntimeError(
                    f"Found the DeviceMesh have {self.ndim} dimensions",
                    "Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.",
                )
            return 0
        return self._get_mesh_dim_by_name(mesh_dim) if isinstance(mesh_dim, str) else mesh_dim

    @staticmethod
    def _init_process_groups(*args: Any, **kwargs: Any) -> list[Any]:
        return []


class XlaProcessMesh(DeviceMesh):
    """A mesh of the processes of a job, with process groups as on any device; rank r is process r."""

    def __init__(self, device_type: str, mesh: Any = None, **options: Any) -> None:
        super().__init__(_KEY, mesh, **options)
        self._device_type = device_type

    @property
    def device_type(self) -> str:
        """The type of the devices; within `as_any_device`, by the name of the dispatch key."""
        return _KEY if _as_any_device.get() else self._device_type


# torch leaves a mesh of devices named xla to torch_xla. The dispatch key's own name means the same devices.
_KEY = "privateuseone"
_as_any_device: ContextVar[bool] = ContextVar("as_any_device", default=False)


@contextlib.contextmanager
def as_any_device() -> Iterator[None]:
    """Within the block torch takes meshes of processes for those of any device."""
    token = _as_any_device.set(True)
    try:
        yield
    finally:
        _as_any_device.reset(token)


def parallel_ranks(mesh: DeviceMesh) -> torch.Tensor:
    """Return the ranks of a mesh and of its parallels in the root mesh, [parallels, *shape of the mesh]."""
    return mesh._layout.remap_to_tensor(mesh._rank_map)


torch.serialization.add_safe_globals([XlaDeviceMesh, XlaProcessMesh])
