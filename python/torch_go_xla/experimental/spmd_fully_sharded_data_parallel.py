"""Fully sharded data parallelism by SPMD, known as FSDPv2."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from .._backend import partitioning
from ..distributed import spmd as xs
from ..distributed.fsdp.wrap import Policy, hide_in_state_dicts, recursive_wrap

__all__ = ["SpmdFullyShardedDataParallel"]


def _largest_dim(t: torch.Tensor) -> xs.PartitionSpec:
    spec: list[str | None] = [None] * t.dim()
    if spec:
        spec[max(range(t.dim()), key=t.size)] = "fsdp"
    return tuple(spec)


class SpmdFullyShardedDataParallel(nn.Module):
    """A module whose parameters are in parts, one a device, and whose batch is too.

    The partitioner gathers a layer's parameters where they are used, and scatters the sums of their gradients.
    State dicts have the names of the module as it is without wrappers.

    Args:
        module: the module; it is moved to the device. Parameters that are sharded already stay so.
        mesh: with an axis "fsdp"; the global mesh by default.
        shard_output: is called with the output and the mesh, to shard the output. By default its first dimension is
            sharded, of a tuple that of the first tensor.
        auto_wrap_policy: names parts that are wrapped by themselves, as `torch_go_xla.distributed.fsdp.wrap` says.
        auto_wrapper_callable: wraps them in place of this class.
        extra_data_axis: another axis of the mesh that the first dimension of the output is sharded over.

    Raises:
        RuntimeError: the module is wrapped already or has no ``forward``.
        ValueError: there is no mesh, or it lacks an axis.

    Example:
        Four devices (``CPU_NUM_DEVICES=4``):

        >>> import torch, torch_go_xla.runtime as xr, torch_go_xla.distributed.spmd as xs
        >>> from torch_go_xla.experimental.spmd_fully_sharded_data_parallel import SpmdFullyShardedDataParallel
        >>> xr.use_spmd()
        >>> mesh = xs.Mesh(range(4), (4,), ("fsdp",))
        >>> model = SpmdFullyShardedDataParallel(torch.nn.Linear(8, 4), mesh=mesh)
        >>> x = xs.mark_sharding(torch.ones(16, 8, device="xla"), mesh, ("fsdp", None))
        >>> model(x).shape, type(model.module).__name__
        (torch.Size([16, 4]), 'Linear')
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        mesh: xs.Mesh | None = None,
        shard_output: Callable[[Any, xs.Mesh], None] | None = None,
        auto_wrap_policy: Policy | None = None,
        auto_wrapper_callable: Callable[..., nn.Module] | None = None,
        extra_data_axis: str | None = None,
    ) -> None:
        if isinstance(module, SpmdFullyShardedDataParallel):
            raise RuntimeError("Cannot wrap a module that is already wrapped with FSDP: wrap its children first")
        if getattr(module.forward, "__func__", None) is nn.Module.forward:
            raise RuntimeError(f"The module wrapped by FSDP must define a `forward` method; {type(module)} does not")
        mesh = mesh or xs.get_global_mesh()
        if mesh is None:
            raise ValueError("No mesh is provided and no global mesh is set. Please provide a mesh.")
        names = mesh.axis_names or ()
        if "fsdp" not in names:
            raise ValueError("The mesh must have an axis named 'fsdp'.")
        if extra_data_axis and extra_data_axis not in names:
            raise ValueError(f"The provided {extra_data_axis} axis is not in the mesh.")
        super().__init__()
        if auto_wrap_policy is not None:
            for name, part in module.named_modules():
                if isinstance(part, SpmdFullyShardedDataParallel):
                    raise ValueError(f"Expected {name} to NOT be SpmdFullyShardedDataParallel with an auto_wrap_policy")
            recursive_wrap(
                module,
                auto_wrap_policy,
                auto_wrapper_callable or SpmdFullyShardedDataParallel,
                only_wrap_children=True,
                mesh=mesh,
                shard_output=shard_output,
            )
        self._orig_module = module.to("xla")
        hide_in_state_dicts(self, "_orig_module")
        self._mesh = mesh
        self._data_axes = (extra_data_axis, "fsdp") if extra_data_axis else "fsdp"
        self._shard_output = shard_output or self._shard_first
        for parameter in module.parameters():
            if not partitioning.sharding_of(parameter):
                xs.mark_sharding(parameter, mesh, _largest_dim(parameter))
        xs.apply_backward_optimization_barrier(module)

    def _shard_first(self, output: Any, mesh: xs.Mesh) -> None:
        first = output
        if isinstance(output, tuple) and output:
            first = output[0]
            warnings.warn(
                "The output is a tuple, but only the first element is sharded. If this is not intended, please "
                "provide your own shard_output callable.",
                stacklevel=3,
            )
        if not isinstance(first, torch.Tensor):
            raise RuntimeError(
                f"The output type is not supported: {type(output)}. Please provide your own shard_output callable."
            )
        if first.dim():
            xs.mark_sharding(first, mesh, (self._data_axes, *[None] * (first.dim() - 1)))

    @property
    def module(self) -> nn.Module:
        """The module that is wrapped."""
        return self._orig_module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        output = self._orig_module(*args, **kwargs)
        self._shard_output(output, self._mesh)
        return output

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("_orig_module"), name)

    def __getitem__(self, key: Any) -> nn.Module:
        return self._orig_module[key]  # type: ignore[no-any-return, index]
