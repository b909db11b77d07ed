"""Meshes, DTensors and FSDP2 on them."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from torch.distributed.device_mesh import DeviceMesh, _mesh_resources

from .. import _job
from .._backend import partitioning
from ..distributed.tensor._mesh import XlaDeviceMesh, XlaProcessMesh
from .loop import apply

Function = Callable[..., Any]


def new_mesh(original: Function) -> Function:
    """Return ``DeviceMesh.__new__``: a mesh of xla devices is an `XlaDeviceMesh`, in a job without SPMD an
    `XlaProcessMesh`.
    """

    @functools.wraps(original)
    def new(cls: type, *args: Any, **kwargs: Any) -> DeviceMesh:
        device_type = args[0] if args else kwargs.get("device_type")
        if cls is DeviceMesh and device_type == "xla":
            apply("mesh")
            cls = XlaProcessMesh if _job.current().world_size > 1 and not partitioning.is_spmd() else XlaDeviceMesh
        return object.__new__(cls)

    return new


def _distributed(name: str) -> Any:
    """Return a module of distributed.tensor that imports torch.distributed.tensor, which takes a second."""
    return importlib.import_module(f"..distributed.tensor.{name}", __package__)


class _ByMesh:
    """An autograd function of torch's that is ours where the mesh, argument ``at`` of ``apply``, is an xla mesh."""

    def __init__(self, ours: Any, theirs: Any, at: int) -> None:
        self._ours, self._theirs, self._at = ours, theirs, at

    def apply(self, *args: Any) -> Any:
        mesh = getattr(args[self._at], "device_mesh", args[self._at])  # of a DTensor, or the argument
        return (self._ours if isinstance(mesh, XlaDeviceMesh) else self._theirs).apply(*args)


def dtensor_api(from_local: Any, redistribute: Any, helper: Function) -> tuple[Any, Any, Function]:
    """Return ``_FromTorchTensor``, ``Redistribute`` and ``_dtensor_init_helper``."""
    autograd, distribute = _distributed("_autograd"), _distributed("_distribute")
    _distributed("_loss")  # enters its handlers

    @functools.wraps(helper)
    def init_helper(
        init_op: Any, size: Any, device_mesh: DeviceMesh | None = None, placements: Any = None, **options: Any
    ) -> Any:
        mesh = device_mesh or _mesh_resources.get_current_mesh()
        make = distribute.init if isinstance(mesh, XlaDeviceMesh) else helper
        return make(init_op, size, mesh, placements, **options)

    return (
        _ByMesh(autograd.FromLocal, from_local, at=1),
        _ByMesh(autograd.Redistribute, redistribute, at=0),
        init_helper,
    )


def torch_xla_hook() -> str:
    """Serve the two functions that torch's ``distribute_tensor`` and ``distribute_module`` import of torch_xla."""
    distribute = _distributed("_distribute")
    hook: Any = ModuleType("torch_xla.distributed.spmd", "What torch's DTensor takes of torch_xla.")
    hook.xla_distribute_tensor = distribute.xla_distribute_tensor
    hook.xla_distribute_module = distribute.xla_distribute_module
    sys.modules.setdefault(hook.__name__, hook)
    return ""


def foreach_types(types: list[type]) -> list[type]:
    """Return the types whose tensors optimizers update together."""
    return [*types, _distributed("_dtensor").XlaDTensor]


def fully_shard(their_info: Function, their_group: Function) -> tuple[Function, Function]:
    """Return ``_get_mesh_info`` and ``_init_param_group``."""
    ours = _distributed("_fully_shard")

    @functools.wraps(their_info)
    def mesh_info(mesh: Any, dp_mesh_dims: Any = None) -> Any:
        return (ours.mesh_info if isinstance(mesh, XlaDeviceMesh) else their_info)(mesh, dp_mesh_dims)

    @functools.wraps(their_group)
    def init_group(
        state: Any,
        params: Any,
        modules: Any,
        mesh_info: Any,
        post_forward: Any,
        device: Any,
        place: Any,
        mp_policy: Any,
        offload: Any,
        *args: Any,
        **options: Any,
    ) -> None:
        if isinstance(mesh_info, ours.MeshInfo):
            ours.init_group(params, modules, mesh_info.mesh, place, mp_policy, offload)
        else:
            given = (state, params, modules, mesh_info, post_forward, device, place, mp_policy, offload)
            their_group(*given, *args, **options)

    return mesh_info, init_group
