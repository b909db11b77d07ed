"""DTensors and modules distributed over an xla mesh."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, _api
from torch.distributed.tensor._utils import assert_no_mixed_partial_types
from torch.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard, _StridedShard

from ._dtensor import XlaDTensor, bind_layout, make_spec
from ._mesh import XlaDeviceMesh, as_any_device


def _normalized(mesh: DeviceMesh, placements: Sequence[Placement] | None, ndim: int) -> tuple[Placement, ...]:
    """Return placements with dimensions counted from the front; ValueError and IndexError as torch's."""
    if placements is None:
        placements = [Replicate()] * mesh.ndim
    if len(placements) != mesh.ndim:
        raise ValueError(
            f"`placements` must have the same length as `device_mesh.ndim`! "
            f"Found placements length: {len(placements)}, and device_mesh.ndim: {mesh.ndim}."
        )
    assert_no_mixed_partial_types(placements)
    return tuple(_normalized_one(p, ndim) for p in placements)


def _normalized_one(placement: Placement, ndim: int) -> Placement:
    if isinstance(placement, (Shard, _StridedShard)):
        dim = placement.dim
        if not -ndim <= dim < ndim:
            raise IndexError(f"Dimension out of range: {placement} of a tensor of {ndim} dimension(s)")
        if dim < 0:
            dim += ndim
        if isinstance(placement, _StridedShard):
            return _StridedShard(dim, split_factor=placement.split_factor)
        return Shard(dim)
    if isinstance(placement, (Replicate, Partial)):
        return placement
    raise RuntimeError(f"Trying to distribute tensor with unsupported placements {placement}!")


def xla_distribute_tensor(
    tensor: torch.Tensor,
    device_mesh: DeviceMesh,
    placements: Sequence[Placement] | None = None,
    partition_spec: Any = None,
) -> DTensor:
    """Distribute a leaf tensor, as ``torch.distributed.tensor.distribute_tensor`` does.

    An XLAShardedTensor counts as the tensor that it is made of. On a mesh of processes torch's own does it.

    Args:
        tensor: the tensor, on any device.
        device_mesh: the mesh.
        placements: one for each axis of the mesh; by default the tensor is replicated.
        partition_spec: accepted for torch_xla's programs.

    Returns:
        A DTensor of the same shape.

    Raises:
        RuntimeError: the tensor is not a leaf, or a placement is of another kind than torch's.
        ValueError: another number of placements than the mesh has axes, or the tensor is a DTensor that is distributed
            otherwise.
        IndexError: the tensor does not have a dimension.

    Example:
        Four devices (``CPU_NUM_DEVICES=4``):

        >>> import torch, torch_go_xla.runtime as xr, torch_go_xla.distributed.spmd as xs
        >>> from torch.distributed.device_mesh import init_device_mesh
        >>> from torch.distributed.tensor import Shard
        >>> xr.use_spmd()
        >>> x = xs.xla_distribute_tensor(torch.ones(8, 2), init_device_mesh("xla", (4,)), [Shard(0)])
        >>> x.placements, x.sum().full_tensor().item()
        ((Shard(dim=0),), 16.0)
    """
    if not isinstance(device_mesh, XlaDeviceMesh):
        with as_any_device():
            return _api.distribute_tensor(tensor, device_mesh, placements)
    if not tensor.is_leaf:
        raise RuntimeError("`distribute_tensor` should be used to distribute leaf tensors! but found non-leaf tensor!")
    placements = _normalized(device_mesh, placements, tensor.dim())
    if isinstance(tensor, DTensor) and hasattr(tensor, "global_tensor"):
        tensor = tensor.global_tensor.detach().requires_grad_(tensor.requires_grad)
    if isinstance(tensor, DTensor):
        if tensor.device_mesh != device_mesh:
            raise ValueError(
                f"Cannot distribute a DTensor with device mesh {tensor.device_mesh} "
                f"to a different device mesh {device_mesh}."
            )
        if tensor.placements != placements:
            raise ValueError(
                f"Cannot distribute a DTensor with placements {tensor.placements} to a different placements "
                f"{placements}. do you want to call `redistribute` instead?"
            )
        return tensor
    value = tensor.detach()
    value = value.clone() if value.is_meta or value.device.type == "xla" else value.to("xla")
    spec = make_spec(value, device_mesh, placements)
    return XlaDTensor(bind_layout(value, spec), spec, requires_grad=tensor.requires_grad)


def xla_distribute_module(
    module: nn.Module,
    device_mesh: DeviceMesh,
    partition_fn: Callable[[str, nn.Module, DeviceMesh], None] | None = None,
    input_fn: Callable[..., Any] | None = None,
    output_fn: Callable[..., Any] | None = None,
) -> nn.Module:
    """Distribute a module's parameters and buffers, as ``torch.distributed.tensor.distribute_module`` does.

    Args:
        module: the module, which is changed.
        device_mesh: the mesh.
        partition_fn: is called with the name of each part, the part and the mesh, and distributes its parameters. Those
            that it leaves are replicated.
        input_fn: is called with the module, its inputs and the mesh, and returns the inputs.
        output_fn: is called with the module, its outputs and the mesh, and returns the outputs.

    Returns:
        The module.

    Example:
        Four devices (``CPU_NUM_DEVICES=4``):

        >>> import torch, torch_go_xla.runtime as xr, torch_go_xla.distributed.spmd as xs
        >>> from torch.distributed.device_mesh import init_device_mesh
        >>> from torch.distributed.tensor import Shard
        >>> xr.use_spmd()
        >>> def partition(name, part, mesh):
        ...     if isinstance(part, torch.nn.Linear):
        ...         part.weight = torch.nn.Parameter(xs.xla_distribute_tensor(part.weight.detach(), mesh, [Shard(0)]))
        >>> model = xs.xla_distribute_module(torch.nn.Linear(4, 8), init_device_mesh("xla", (4,)), partition)
        >>> model.weight.placements, model.bias.placements
        ((Shard(dim=0),), (Replicate(),))
    """
    if not isinstance(device_mesh, XlaDeviceMesh):
        with as_any_device():
            return _api.distribute_module(module, device_mesh, partition_fn, input_fn, output_fn)
    for name, part in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, part, device_mesh)
        for key, parameter in part._parameters.items():
            if parameter is not None and not isinstance(parameter, DTensor):
                whole = xla_distribute_tensor(parameter.data, device_mesh)
                part.register_parameter(key, nn.Parameter(whole, requires_grad=parameter.requires_grad))
        for key, buffer in part._buffers.items():
            if buffer is not None and not isinstance(buffer, DTensor):
                part._buffers[key] = xla_distribute_tensor(buffer, device_mesh)
    if input_fn is not None:
        into = _with_module("input_fn", input_fn)
        module.register_forward_pre_hook(lambda m, inputs: into(m, inputs, device_mesh))
    if output_fn is not None:
        out_of = _with_module("output_fn", output_fn)
        module.register_forward_hook(lambda m, inputs, outputs: out_of(m, outputs, device_mesh))
    module._distribute_module_applied = True  # type: ignore[assignment]
    return module


def _with_module(name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of (module, values, mesh), which torch allows to be one of (values, mesh)."""
    count = len(inspect.signature(fn).parameters)
    if count == 2:
        warnings.warn(
            f"Deprecating {name} that takes two arguments (values, device_mesh), please use {name} that takes in "
            "(module, values, device_mesh) instead!",
            FutureWarning,
            stacklevel=3,
        )
        return lambda module, values, mesh: fn(values, mesh)
    if count != 3:
        raise ValueError(f"{name} should take in 3 arguments, but got {count} arguments!")
    return fn


def init(
    init_op: Callable[..., torch.Tensor],
    size: torch.Size,
    device_mesh: DeviceMesh,
    placements: Sequence[Placement] | None = None,
    **options: Any,
) -> DTensor:
    """Return a new DTensor, from a factory of torch's; the values are those of the whole tensor."""
    if options["layout"] != torch.strided:
        raise AssertionError("layout value not supported!")
    if placements and len(placements) != device_mesh.ndim:
        raise AssertionError("mesh dimension does not match the length of placements")
    requires_grad = options.pop("requires_grad", False)
    placements = _normalized(device_mesh, placements or None, len(size))
    shape: dict[str, Any] = {"steps": size[0]} if init_op in (torch.linspace, torch.logspace) else {"size": size}
    value = init_op(**shape, **options, device="xla")
    spec = make_spec(value, device_mesh, placements)
    return XlaDTensor(bind_layout(value, spec), spec, requires_grad=requires_grad)
