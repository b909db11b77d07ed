"""An optimizer whose state is divided among processes: torch_xla's ``ZeroRedundancyOptimizer`` (ZeRO-1)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F

import torch_go_xla

from .. import runtime
from .._backend.core import is_xla
from ..core import xla_model as xm

__all__ = ["ZeroRedundancyOptimizer"]

Pairs = Sequence[tuple[torch.Tensor, torch.Tensor]]


class ZeroRedundancyOptimizer(torch.optim.Optimizer):
    """An optimizer over parts of the parameters: each process has one part of each, and the state of that.

    A step adds up the gradients of all processes, of which each gets its part, divided by their number. Each updates
    its parts, and then all get all of the new parameters. So do not call `xm.optimizer_step` or `xm.reduce_gradients`.
    Parameters are divided along their first dimension, with zeros at the end where that does not divide. An optimizer
    that looks at a whole parameter, such as LAMB, computes something else.

    Args:
        params: the parameters, or groups of them, on one xla device.
        optimizer_class: the optimizer of the parts, such as ``torch.optim.AdamW``.
        optimizer_dtype: the type of the parts and of their state, float32 by default.
        grad_clipping: divide the gradients by their norm over ``max_norm`` where it is larger.
        max_norm: the largest norm of all gradients together, 1.0 by default.
        pin_layout: accepted for torch_xla's programs.
        sharding_groups: lists of the processes that divide the parameters among them. All processes by default.
        grad_norm_groups: lists of processes over which the squares of the norm are added up too, such as those that
            hold other parts of the model.
        lazy_init: divide nothing until `init_zero` is called.
        bucket_cap_mb_all_gather: accepted for torch_xla's programs: the compiler chooses the size of messages.
        bucket_cap_mb_reduce_scatter: accepted for torch_xla's programs.
        use_grad_acc_hook: add gradients up in ``optimizer_dtype`` as they are computed, in ``main_grad`` of the
            parameters. Their ``grad`` stays None.
        save_master_weights: `state_dict` has the parts of the parameters. Without, those of a lower precision than
            ``optimizer_dtype`` are rounded where training is resumed.
        higher_cc_precision: add gradients up among the processes in ``optimizer_dtype``.
        defaults: the arguments of ``optimizer_class``.

    Raises:
        RuntimeError: the parameters are not on one xla device.
        ValueError: this process is in none of ``sharding_groups``.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.distributed.zero_redundancy_optimizer import ZeroRedundancyOptimizer
        >>> model = torch.nn.Linear(4, 2).to("xla")
        >>> optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=0.1)
        >>> model(torch.ones(3, 4, device="xla")).sum().backward()
        >>> optimizer.step()
        >>> torch_go_xla.sync()
    """

    def __init__(
        self,
        params: Iterable[Any],
        optimizer_class: type[torch.optim.Optimizer],
        optimizer_dtype: torch.dtype | None = None,
        grad_clipping: bool = True,
        max_norm: float | None = None,
        pin_layout: bool = True,
        sharding_groups: Any = None,
        grad_norm_groups: Any = None,
        lazy_init: bool = False,
        bucket_cap_mb_all_gather: int = 0,
        bucket_cap_mb_reduce_scatter: int = 0,
        use_grad_acc_hook: bool = False,
        save_master_weights: bool = False,
        higher_cc_precision: bool = False,
        **defaults: Any,
    ) -> None:
        super().__init__(params, defaults)
        self.optimizer_class = optimizer_class
        self.optimizer_dtype = optimizer_dtype or torch.float32
        self.grad_clipping, self.max_norm = grad_clipping, 1.0 if max_norm is None else float(max_norm)
        self.save_master_weights, self.higher_cc_precision = save_master_weights, higher_cc_precision
        self.use_grad_acc_hook = use_grad_acc_hook
        self.inited = False
        everyone = [list(range(runtime.world_size()))]
        self._sharding_groups = everyone if sharding_groups is None else [list(g) for g in sharding_groups]
        self._grad_norm_groups = grad_norm_groups
        self._grad_norm: torch.Tensor | None = None
        self._hooks: list[Any] = []
        if not lazy_init:
            self.init_zero()

    # ---- parts ----

    def init_zero(self) -> None:
        """Divide the parameters as they are now; the state begins again.

        Raises:
            RuntimeError: the parameters are not on one xla device.
            ValueError: this process is in none of the groups.

        Example:
            >>> import torch
            >>> from torch_go_xla.distributed.zero_redundancy_optimizer import ZeroRedundancyOptimizer
            >>> w = torch.nn.Parameter(torch.ones(4, device="xla"))
            >>> optimizer = ZeroRedundancyOptimizer([w], torch.optim.SGD, lr=0.1, lazy_init=True)
            >>> optimizer.init_zero()
        """
        self.remove_hooks()
        devices = {p.device for group in self.param_groups for p in group["params"]}
        if len(devices) != 1 or not all(is_xla(p) for group in self.param_groups for p in group["params"]):
            raise RuntimeError(f"the parameters must be on one xla device, they are on {sorted(map(str, devices))}")
        self.device = devices.pop()
        rank = runtime.global_ordinal()
        own = [group for group in self._sharding_groups if rank in group]
        if not own:
            raise ValueError(f"process {rank} is in none of the sharding groups {self._sharding_groups}")
        self.local_world_size, self.local_rank = len(own[0]), own[0].index(rank)
        groups = []
        for group in self.param_groups:
            parts = [torch.nn.Parameter(self._part(p), requires_grad=p.requires_grad) for p in group["params"]]
            groups.append({**group, "params": parts})
        # The arguments are in the groups already.
        self.base_optimizer = self.optimizer_class(groups, **self.defaults)
        if self.use_grad_acc_hook:
            for p, part in self._pairs():
                if p.requires_grad:
                    tensor: Any = p
                    self._hooks.append(tensor.register_post_accumulate_grad_hook(self._accumulate(part)))
        self.inited = True

    def _padded(self, x: torch.Tensor) -> torch.Tensor:
        x = x if x.dim() else x.reshape(1)
        missing = -x.size(0) % self.local_world_size
        return F.pad(x, [0, 0] * (x.dim() - 1) + [0, missing]) if missing else x

    def _part(self, p: torch.Tensor) -> torch.Tensor:
        return (
            self._padded(p.detach()).chunk(self.local_world_size)[self.local_rank].to(self.optimizer_dtype, copy=True)
        )

    def _pairs(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield parameters and their parts."""
        for group, parts in zip(self.param_groups, self.base_optimizer.param_groups, strict=True):
            yield from zip(group["params"], parts["params"], strict=True)

    def _accumulate(self, part: Any) -> Callable[[torch.Tensor], None]:
        def hook(p: Any) -> None:
            if not hasattr(part, "main_grad"):
                p.main_grad = part.main_grad = torch.zeros_like(p, dtype=self.optimizer_dtype)
            part.main_grad.add_(p.grad)
            p.grad = None

        return hook

    def remove_hooks(self) -> None:
        """Stop adding gradients up as they are computed.

        Example:
            >>> import torch
            >>> from torch_go_xla.distributed.zero_redundancy_optimizer import ZeroRedundancyOptimizer
            >>> w = torch.nn.Parameter(torch.ones(4, device="xla"))
            >>> ZeroRedundancyOptimizer([w], torch.optim.SGD, lr=0.1, use_grad_acc_hook=True).remove_hooks()
        """
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    @property
    def sharding_groups(self) -> list[list[int]]:
        """The lists of the processes that divide the parameters among them. They can be set before `init_zero`.

        Example:
            >>> import torch
            >>> from torch_go_xla.distributed.zero_redundancy_optimizer import ZeroRedundancyOptimizer
            >>> w = torch.nn.Parameter(torch.ones(4, device="xla"))
            >>> ZeroRedundancyOptimizer([w], torch.optim.SGD, lr=0.1).sharding_groups
            [[0]]
        """
        return self._sharding_groups

    @sharding_groups.setter
    def sharding_groups(self, new_sharding_groups: Any) -> None:
        if self.inited:
            raise RuntimeError("the parameters are divided already: set sharding_groups before init_zero")
        self._sharding_groups = [list(g) for g in new_sharding_groups]

    @property
    def grad_norm(self) -> torch.Tensor | None:
        """The norm of the gradients of the last step, before it was clipped; None without ``grad_clipping``.

        Example:
            >>> import torch
            >>> from torch_go_xla.distributed.zero_redundancy_optimizer import ZeroRedundancyOptimizer
            >>> w = torch.nn.Parameter(torch.ones(4, device="xla"))
            >>> optimizer = ZeroRedundancyOptimizer([w], torch.optim.SGD, lr=0.1)
            >>> w.sum().backward()
            >>> optimizer.step()
            >>> optimizer.grad_norm.item()
            2.0
        """
        return self._grad_norm

    # ---- steps ----

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """Update the parameters of all processes, which must all call it.

        Args:
            closure: computes the loss and the gradients.
            kwargs: arguments of the step of the parts. ``sharding_scheme``, a list of dicts with ``scale_factor``,
                ``sharding_group`` and ``group_size``, divides the gradients in several stages.

        Returns:
            What the closure returns, or None.

        Raises:
            RuntimeError: `init_zero` has not been called.

        Example:
            >>> import torch
            >>> from torch_go_xla.distributed.zero_redundancy_optimizer import ZeroRedundancyOptimizer
            >>> w = torch.nn.Parameter(torch.ones(4, device="xla"))
            >>> optimizer = ZeroRedundancyOptimizer([w], torch.optim.SGD, lr=0.5, grad_clipping=False)
            >>> w.sum().backward()
            >>> optimizer.step()
            >>> w.tolist()
            [0.5, 0.5, 0.5, 0.5]
        """
        if not self.inited:
            raise RuntimeError("the parameters are not divided yet: call init_zero first")
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        scheme = kwargs.pop("sharding_scheme", None) or self._scheme()
        _copy_settings(self.param_groups, self.base_optimizer.param_groups)
        updated = self._reduce_gradients(scheme)
        if self.grad_clipping:
            self._clip(updated)
        self.base_optimizer.step(**kwargs)
        self.base_optimizer.zero_grad()
        self._gather(updated, scheme)
        _copy_settings(self.base_optimizer.param_groups, self.param_groups)
        return loss

    def _scheme(self) -> list[dict[str, Any]]:
        return [
            {"scale_factor": 1.0, "sharding_group": self._sharding_groups, "group_size": self.local_world_size},
        ]

    def _reduce_gradients(self, scheme: Sequence[dict[str, Any]]) -> Pairs:
        """Give the parts their gradients, and return those that have one."""
        pairs, grads = [], []
        for p, part in self._pairs():
            grad = getattr(part, "main_grad", None) if self.use_grad_acc_hook else p.grad
            if grad is not None:
                pairs.append((p, part))
                grad = self._padded(grad)
                grads.append(grad.to(self.optimizer_dtype) if self.higher_cc_precision else grad)
        for stage in scheme:
            size = stage["group_size"]
            scale = stage["scale_factor"] / size
            grads = xm.reduce_scatter(xm.REDUCE_SUM, grads, scale, 0, size, groups=stage["sharding_group"])
        for (_, part), grad in zip(pairs, grads, strict=True):
            part.grad = grad.to(self.optimizer_dtype)
        return pairs

    def _clip(self, pairs: Pairs) -> None:
        total: Any = torch.zeros([], dtype=self.optimizer_dtype, device=self.device)
        for _, part in pairs:
            assert part.grad is not None
            total = total + part.grad.square().sum()
        for groups in filter(None, (self._sharding_groups, self._grad_norm_groups)):
            total = xm.all_reduce(xm.REDUCE_SUM, total, groups=groups)
        self._grad_norm = total.sqrt()
        factor = (self.max_norm / (self._grad_norm + 1e-6)).clamp(max=1.0)
        for _, part in pairs:
            assert part.grad is not None
            part.grad.mul_(factor)

    def _gather(self, pairs: Pairs, scheme: Sequence[dict[str, Any]]) -> None:
        """Write the parts of all processes into the parameters."""
        whole = [part.detach().to(p.dtype) for p, part in pairs]
        for stage in reversed(scheme):
            whole = xm.all_gather(whole, groups=stage["sharding_group"])
        for (p, _), value in zip(pairs, whole, strict=True):
            p.detach().copy_(value[: p.size(0)] if p.dim() else value[0])

    def allgather_weights_and_update_full_parameter(self, sharding_scheme: Any = None) -> None:
        """Write the parts of all processes into the parameters, as a step does. All processes must call it.

        Args:
            sharding_scheme: as for `step`.

        Example:
            >>> import torch
            >>> from torch_go_xla.distributed.zero_redundancy_optimizer import ZeroRedundancyOptimizer
            >>> w = torch.nn.Parameter(torch.ones(4, device="xla"))
            >>> optimizer = ZeroRedundancyOptimizer([w], torch.optim.SGD, lr=0.1)
            >>> optimizer.allgather_weights_and_update_full_parameter()
        """
        self._gather(list(self._pairs()), sharding_scheme or self._scheme())

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Forget the gradients, and what ``use_grad_acc_hook`` has added up.

        Args:
            set_to_none: forget the tensors, too.

        Example:
            >>> import torch
            >>> from torch_go_xla.distributed.zero_redundancy_optimizer import ZeroRedundancyOptimizer
            >>> w = torch.nn.Parameter(torch.ones(4, device="xla"))
            >>> ZeroRedundancyOptimizer([w], torch.optim.SGD, lr=0.1).zero_grad()
        """
        super().zero_grad(set_to_none=set_to_none)
        for _, part in self._pairs() if self.inited else ():
            if hasattr(part, "main_grad"):
                part.main_grad.zero_()

    # ---- saving ----

    def state_dict(self) -> dict[str, Any]:
        """Return the settings, and the state of this process's parts. Each process saves its own.

        Example:
            >>> import torch
            >>> from torch_go_xla.distributed.zero_redundancy_optimizer import ZeroRedundancyOptimizer
            >>> w = torch.nn.Parameter(torch.ones(4, device="xla"))
            >>> optimizer = ZeroRedundancyOptimizer([w], torch.optim.SGD, lr=0.1, save_master_weights=True)
            >>> sorted(optimizer.state_dict())
            ['base_state', 'param_groups', 'shape_info', 'sharded_master_weights', 'state']
        """
        state = super().state_dict()
        state["base_state"] = self.base_optimizer.state_dict()["state"]
        state["shape_info"] = self.get_shape_info()
        if self.save_master_weights:
            state["sharded_master_weights"] = {i: part.detach() for i, (_, part) in enumerate(self._pairs())}
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what `state_dict` returned in this process. All processes must call it.

        The parts are those of the parameters as they are now, unless the parts were saved.

        Args:
            state_dict: what `state_dict` returned, with the same number of processes in a group.

        Raises:
            ValueError: the groups of parameters have other sizes.

        Example:
            >>> import torch
            >>> from torch_go_xla.distributed.zero_redundancy_optimizer import ZeroRedundancyOptimizer
            >>> w = torch.nn.Parameter(torch.ones(4, device="xla"))
            >>> optimizer = ZeroRedundancyOptimizer([w], torch.optim.SGD, lr=0.1)
            >>> optimizer.load_state_dict(optimizer.state_dict())
        """
        state_dict = copy.deepcopy(state_dict)
        state, weights = state_dict.pop("base_state"), state_dict.pop("sharded_master_weights", None)
        state_dict.pop("shape_info", None)
        super().load_state_dict(state_dict)
        self.init_zero()
        groups = self.base_optimizer.state_dict()["param_groups"]
        _copy_settings(self.param_groups, groups)
        self.base_optimizer.load_state_dict({"state": state, "param_groups": groups})
        if weights is not None:
            with torch.no_grad():
                for i, (_, part) in enumerate(self._pairs()):
                    part.copy_(weights[i])
                self.allgather_weights_and_update_full_parameter()
            torch_go_xla.sync()

    def get_shape_info(self) -> dict[int, torch.Size]:
        """Return the shapes of the parameters, by their places.

        Example:
            >>> import torch
            >>> from torch_go_xla.distributed.zero_redundancy_optimizer import ZeroRedundancyOptimizer
            >>> w = torch.nn.Parameter(torch.ones(4, device="xla"))
            >>> ZeroRedundancyOptimizer([w], torch.optim.SGD, lr=0.1).get_shape_info()
            {0: torch.Size([4])}
        """
        return {i: p.shape for i, p in enumerate(p for group in self.param_groups for p in group["params"])}


def _copy_settings(source: Sequence[dict[str, Any]], target: Sequence[dict[str, Any]]) -> None:
    """Copy what groups of parameters have besides these, such as learning rates."""
    for a, b in zip(source, target, strict=True):
        b.update({name: value for name, value in a.items() if name != "params"})
