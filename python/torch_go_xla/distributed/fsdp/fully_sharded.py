"""torch_xla's first wrapper for fully sharded data parallelism, on torch's ``fully_shard``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from ... import device, runtime
from .wrap import Policy, hide_in_state_dicts, recursive_wrap

__all__ = ["XlaFullyShardedDataParallel"]


class XlaFullyShardedDataParallel(nn.Module):
    """A module whose parameters, gradients and optimizer state are in parts, one for each process of the job.

    It is torch's ``fully_shard`` under torch_xla's name. The parameters are DTensors, and so are the values of state
    dicts. Their names are those of the module without wrappers. Save them with ``torch.distributed.checkpoint``. In a
    single process there is nothing to shard, and the module is unchanged.

    Args:
        module: the module; it is moved to the device.
        reshard_after_forward: free the whole parameters between the forward and the backward pass.
        compute_dtype: of the parameters in both passes; by default their own.
        fp32_reduce_scatter: add up gradients in float32.
        auto_wrap_policy: names parts that are wrapped by themselves, see `torch_go_xla.distributed.fsdp.wrap`.
        auto_wrapper_callable: wraps them in the place of this class.
        options: torch_xla's others, which say how its collectives are laid out; they are accepted.

    Raises:
        RuntimeError: the module is wrapped already.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.distributed.fsdp import XlaFullyShardedDataParallel
        >>> model = XlaFullyShardedDataParallel(torch.nn.Linear(4, 2))
        >>> batches = torch.ones(3, 8, 4, device="xla")
        >>> with model.no_sync():  # gradients of the first two batches stay in the process
        ...     for x in batches[:2]:
        ...         model(x).sum().backward()
        >>> model(batches[2]).sum().backward()  # those of all three are summed over the processes
        >>> model.clip_grad_norm_(1.0).shape, model.module.weight.shape, model.extra_repr()
        (torch.Size([]), torch.Size([2, 4]), 'world_size=1')
    """

    def __init__(
        self,
        module: nn.Module,
        reshard_after_forward: bool = True,
        compute_dtype: torch.dtype | None = None,
        fp32_reduce_scatter: bool = False,
        auto_wrap_policy: Policy | None = None,
        auto_wrapper_callable: Callable[..., nn.Module] | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        if isinstance(module, XlaFullyShardedDataParallel):
            raise RuntimeError("the module is wrapped already")
        settings: dict[str, Any] = {
            "reshard_after_forward": reshard_after_forward,
            "compute_dtype": compute_dtype,
            "fp32_reduce_scatter": fp32_reduce_scatter,
        }
        module = module.to(device())
        if auto_wrap_policy is not None:
            wrapper = auto_wrapper_callable or type(self)
            recursive_wrap(module, auto_wrap_policy, wrapper, only_wrap_children=True, **settings)
        self._fsdp_wrapped_module: Any = module
        self._sharded = runtime.world_size() > 1
        if self._sharded:
            if not dist.is_initialized():
                dist.init_process_group("xla", init_method="env://")
            fully_shard(
                module,
                mesh=init_device_mesh("xla", (runtime.world_size(),)),
                reshard_after_forward=reshard_after_forward,
                mp_policy=MixedPrecisionPolicy(compute_dtype, torch.float32 if fp32_reduce_scatter else None),
            )
        elif compute_dtype is not None:
            self._autocast = compute_dtype
        hide_in_state_dicts(self, "_fsdp_wrapped_module")

    _autocast: torch.dtype | None = None  # of the passes of a process of its own

    @property
    def module(self) -> nn.Module:
        """The module that is wrapped."""
        inner: nn.Module = self._fsdp_wrapped_module
        return inner

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("_fsdp_wrapped_module"), name)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module.

        Args:
            args: what it takes.
            kwargs: what it takes.

        Returns:
            What it returns.

        Example:
            >>> import torch, torch_go_xla
            >>> from torch_go_xla.distributed.fsdp import XlaFullyShardedDataParallel
            >>> model = XlaFullyShardedDataParallel(torch.nn.Linear(4, 2))
            >>> model(torch.ones(1, 4, device="xla")).shape
            torch.Size([1, 2])
        """
        half = self._autocast if self._autocast in (torch.bfloat16, torch.float16) else None
        with torch.autocast("xla", half, enabled=half is not None):
            return self._fsdp_wrapped_module(*args, **kwargs)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Keep the gradients of the block in the process; the next step outside of it adds them up for all."""
        if not self._sharded:
            yield
            return
        self._fsdp_wrapped_module.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            self._fsdp_wrapped_module.set_requires_gradient_sync(True)

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0, groups: Any = None) -> torch.Tensor:
        """Scale the gradients so that the norm of them all, over all processes, is ``max_norm`` at most.

        Args:
            max_norm: the largest norm.
            norm_type: the exponent of the norm, such as 2.0 or ``inf``.
            groups: accepted for torch_xla's programs.

        Returns:
            The norm of before, a scalar.
        """
        return torch.nn.utils.clip_grad_norm_(self.parameters(), max_norm, norm_type)

    def get_shard_metadata(self) -> dict[str, Any]:
        """Raise an error where torch_xla returns what its tools consolidate checkpoints by: shards know their place.

        Raises:
            NotImplementedError: always. The message says how to consolidate a checkpoint.

        Example:
            >>> import torch, torch_go_xla
            >>> from torch_go_xla.distributed.fsdp import XlaFullyShardedDataParallel
            >>> XlaFullyShardedDataParallel(torch.nn.Linear(4, 2)).get_shard_metadata()
            Traceback (most recent call last):
            NotImplementedError: parameters are DTensors, which know their place: ...
        """
        raise NotImplementedError(
            "parameters are DTensors, which know their place: save and consolidate by torch.distributed.checkpoint "
            "(python -m torch.distributed.checkpoint.format_utils dcp_to_torch FOLDER FILE)"
        )

    def extra_repr(self) -> str:
        """Return over how many processes the module is sharded, as a text."""
        return f"world_size={runtime.world_size()}"
