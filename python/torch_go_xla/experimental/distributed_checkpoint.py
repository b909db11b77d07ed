"""Checkpoints of sharded training, by step: torch_xla's ``torch_xla.experimental.distributed_checkpoint``.

They are folders of ``torch.distributed.checkpoint``, which load on another mesh and without this package too.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import StorageMeta
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.utils import _pytree as pytree

from .. import _XLAC
from .._backend.core import is_xla
from ..core import xla_model as xm
from ..core._collectives import rendezvous
from ..distributed.spmd import unwrap_sharded_tensor
from ..distributed.tensor._dtensor import XlaDTensor
from ..distributed.tensor._parted import InParts, copy_parts, is_parted

__all__ = ["CheckpointManager", "SPMDLoadPlanner", "SPMDSavePlanner", "prime_optimizer"]

_MARK = ".manager_metadata"  # written last: a folder without it is no checkpoint


def _plain(t: torch.Tensor) -> torch.Tensor:
    """Return the logical tensor of a tensor over the devices of SPMD, another as it is."""
    return t._local_tensor if isinstance(t, XlaDTensor) else unwrap_sharded_tensor(t)


def _parted(t: torch.Tensor) -> torch.Tensor:
    """Return a tensor as a planner is to see it: by the parts that this process holds, if those are not all."""
    t = _plain(t)
    return t.detach().as_subclass(InParts) if is_parted(t) and not isinstance(t, InParts) else t


def _copied(state_dict: dict[str, Any]) -> dict[str, Any]:
    """Return a state as it is now, to be written later; in a job all processes call it.

    Its tensors are copies on the CPU, of what this process holds of them. One of torch's DTensors, and one of another
    device, such as an optimizer's count of steps, is copied where it is.
    """
    leaves, spec = pytree.tree_flatten(pytree.tree_map_only(torch.Tensor, _plain, state_dict))
    here = [i for i, leaf in enumerate(leaves) if type(leaf) in (torch.Tensor, nn.Parameter) and is_xla(leaf)]
    parted = {i for i in here if is_parted(leaves[i])}
    whole = [i for i in here if i not in parted]
    for i, leaf in enumerate(leaves):
        if i in parted:
            leaves[i] = copy_parts(leaf.detach())
        elif isinstance(leaf, torch.Tensor) and i not in here:
            leaves[i] = leaf.detach().clone()
    for i, value in zip(whole, _XLAC._xla_get_cpu_tensors([leaves[i].detach() for i in whole]), strict=True):
        leaves[i] = value
    return pytree.tree_unflatten(leaves, spec)  # type: ignore[no-any-return]


class SPMDSavePlanner(DefaultSavePlanner):
    """A planner that writes tensors marked with a sharding; in a job, each process what its devices hold of them."""

    def set_up_planner(
        self, state_dict: dict[str, Any], storage_meta: StorageMeta | None = None, is_coordinator: bool = False
    ) -> None:
        seen = pytree.tree_map_only(torch.Tensor, _parted, state_dict)
        super().set_up_planner(seen, storage_meta, is_coordinator)


class SPMDLoadPlanner(DefaultLoadPlanner):
    """A planner that reads into tensors in place, in a job what its devices hold of them.

    They keep their shardings, whichever those were that were written.
    """

    def set_up_planner(self, state_dict: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        super().set_up_planner(pytree.tree_map_only(torch.Tensor, _parted, state_dict), *args, **kwargs)
        self.original_state_dict = state_dict  # which what is no tensor goes into


def prime_optimizer(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Give an optimizer the state that a checkpoint can be read into, by a step with gradients of zero.

    The step may change the parameters and the state: restore both afterwards.
    """
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p.requires_grad:
                p.grad = torch.zeros_like(p)
    optimizer.step()
    optimizer.zero_grad()
    xm.mark_step(wait=True)
    return optimizer


class CheckpointManager:
    """Takes and keeps checkpoints of a training, and reads them.

    ::

        manager = CheckpointManager("run", save_interval=100, max_to_keep=3)
        if steps := manager.all_steps():
            prime_optimizer(optimizer)
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            manager.restore(max(steps), state)
        for step, batch in enumerate(loader):
            ...
            manager.save_async(step, {"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        save_interval: int,
        max_to_keep: int = 0,
        max_pending_async: int = 1,
        num_of_threads: int = 1,
        process_group: dist.ProcessGroup | None = None,
        chkpt_on_preemption: bool = True,
    ) -> None:
        """Take up the checkpoints of a folder, which is made if need be.

        Args:
            path: the folder; in a job, of a file system that all processes share.
            save_interval: a step whose number it divides is saved.
            max_to_keep: how many checkpoints are kept; those written first are deleted. 0 keeps all.
            max_pending_async: how many may wait to be written before `save_async` waits.
            num_of_threads: how many write a checkpoint.
            process_group: those that save together, all processes by default.
            chkpt_on_preemption: save the next step after a SIGTERM, which does not end the process any more. The
                manager is then to be made in the main thread.

        ValueError for a number that makes no sense.
        """
        if save_interval < 1 or max_to_keep < 0 or max_pending_async < 1 or num_of_threads < 1:
            raise ValueError("save_interval, max_pending_async, num_of_threads: want 1 or more; max_to_keep: 0 or more")
        self.base_path = Path(path)
        self.base_path.mkdir(parents=True, exist_ok=True)
        self.save_interval, self.max_to_keep, self.num_of_threads = save_interval, max_to_keep, num_of_threads
        self.process_group = process_group
        self.chkpt_on_preemption = chkpt_on_preemption
        self._terminated = False
        if chkpt_on_preemption:
            signal.signal(signal.SIGTERM, self._terminate)
        self._worker = ThreadPoolExecutor(max_workers=1)
        self._room = threading.Semaphore(max_pending_async)
        self._pending: list[Future[None]] = []
        self._lock = threading.Lock()

    def _terminate(self, *args: Any) -> None:
        self._terminated = True

    def _by_age(self) -> list[int]:
        marks = [json.loads(m.read_text()) for m in self.base_path.glob(f"*/{_MARK}")]
        return [m["step"] for m in sorted(marks, key=lambda m: m["time"])]

    def all_steps(self) -> list[int]:
        """Return the steps of which there is a whole checkpoint, in their order."""
        return sorted(self._by_age())

    def reached_preemption(self, step: int) -> bool:
        """Tell whether a process has got SIGTERM; in a job every process asks in the same steps."""
        if not self.chkpt_on_preemption:
            raise RuntimeError("the manager was made without chkpt_on_preemption")
        return any(told != b"\0" for told in rendezvous("preemption", bytes([self._terminated])))

    def should_save(self, step: int) -> bool:
        """Tell whether a step is to be saved: by its number, or because the process is to end."""
        return step % self.save_interval == 0 or (self.chkpt_on_preemption and self.reached_preemption(step))

    def save(self, step: int, state_dict: dict[str, Any], force: bool = False) -> bool:
        """Save a step if `should_save`, or by ``force``; return whether it was."""
        if not (force or self.should_save(step)):
            return False
        xm.mark_step()
        self._save(step, state_dict)
        return True

    def save_async(self, step: int, state_dict: dict[str, Any], force: bool = False) -> bool:
        """Do what `save` does, and write in another thread what the tensors are now; `join` raises what fails there."""
        if not (force or self.should_save(step)):
            return False
        self._room.acquire()
        saving = self._worker.submit(self._save, step, _copied(state_dict))
        saving.add_done_callback(lambda _: self._room.release())
        self._pending.append(saving)
        return True

    def _save(self, step: int, state_dict: dict[str, Any]) -> None:
        folder = self.base_path / str(step)
        first = not dist.is_initialized() or dist.get_rank(self.process_group) == 0
        with self._lock:
            if first:
                shutil.rmtree(folder, ignore_errors=True)
            writer = FileSystemWriter(folder, thread_count=self.num_of_threads, per_thread_copy_ahead=0)
            save(state_dict, storage_writer=writer, planner=SPMDSavePlanner(), process_group=self.process_group)
            if first:
                (folder / _MARK).write_text(json.dumps({"step": step, "time": time.time()}))
                steps = self._by_age()
                for old in steps[: len(steps) - self.max_to_keep] if self.max_to_keep else []:
                    shutil.rmtree(self.base_path / str(old))

    def restore(self, step: int, state_dict: dict[str, Any]) -> None:
        """Read a checkpoint into the tensors of a state, in place, and its other values.

        ValueError for a step that is not there.
        """
        if step not in self.all_steps():
            raise ValueError(f"there is no checkpoint of step {step}; there are those of {self.all_steps()}")
        reader = FileSystemReader(self.base_path / str(step))
        load(state_dict, storage_reader=reader, planner=SPMDLoadPlanner(), process_group=self.process_group)

    def join(self) -> None:
        """Wait until what `save_async` was given is written; raise the first error of that."""
        pending, self._pending = self._pending, []
        for saving in pending:
            saving.result()
