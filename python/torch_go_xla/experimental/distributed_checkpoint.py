"""Checkpoints of sharded training, by step: torch_xla's ``torch_xla.experimental.distributed_checkpoint``.

They are folders of ``torch.distributed.checkpoint``, which load on another mesh and without this package too.
"""

from __future__ import annotations

import _thread
import contextlib
import errno
import json
import os
import re
import secrets
import shutil
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import StorageMeta
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.checkpoint.storage import WriteResult
from torch.distributed.checkpoint.utils import _DistWrapper
from torch.utils import _pytree as pytree

from .. import _XLAC
from .._backend.core import is_xla
from ..core import xla_model as xm
from ..core._collectives import rendezvous
from ..distributed.spmd import unwrap_sharded_tensor
from ..distributed.tensor._dtensor import XlaDTensor
from ..distributed.tensor._parted import InParts, copy_parts, is_parted
from ..utils import whole_file

__all__ = ["CheckpointManager", "SPMDLoadPlanner", "SPMDSavePlanner", "prime_optimizer"]

_T = TypeVar("_T")

# A checkpoint is made in a folder .STEP.TOKEN.part, data first, then the mark; the folder is flushed, then renamed to
# STEP. One that goes is renamed to .STEP.TOKEN.old, and loses its mark first, then the data. A folder without a mark
# is not a checkpoint. Where a new one takes the place of an old one, .old is that of its step until STEP is there.
_MARK = ".manager_metadata"
_PART = re.compile(r"\.-?\d+\.[0-9a-f]{12}\.part")
_STEP = re.compile(r"(-?\d+)|\.(-?\d+)\.[0-9a-f]{12}\.old")


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
    """A planner that writes tensors marked with a sharding; in a job, each process what its devices hold of them.

    Example:
        Four devices (``CPU_NUM_DEVICES=4``). The file is one of torch, which any mesh reads:

        >>> import tempfile, torch, torch.distributed.checkpoint as dcp
        >>> import torch_go_xla.runtime as xr, torch_go_xla.distributed.spmd as xs
        >>> from torch_go_xla.experimental.distributed_checkpoint import SPMDSavePlanner
        >>> xr.use_spmd()
        >>> x = xs.mark_sharding(torch.ones(8, device="xla"), xs.get_1d_mesh("x"), ("x",))
        >>> folder = tempfile.mkdtemp()
        >>> metadata = dcp.save({"x": x}, storage_writer=dcp.FileSystemWriter(folder), planner=SPMDSavePlanner())
        >>> state = {"x": torch.zeros(8)}
        >>> dcp.load(state, checkpoint_id=folder)
        >>> state["x"].sum()
        tensor(8.)
    """

    def set_up_planner(
        self, state_dict: dict[str, Any], storage_meta: StorageMeta | None = None, is_coordinator: bool = False
    ) -> None:
        seen = pytree.tree_map_only(torch.Tensor, _parted, state_dict)
        super().set_up_planner(seen, storage_meta, is_coordinator)


class SPMDLoadPlanner(DefaultLoadPlanner):
    """A planner that reads into tensors in place, in a job what its devices hold of them.

    They keep their shardings, whichever those were that were written.

    Example:
        Four devices (``CPU_NUM_DEVICES=4``):

        >>> import tempfile, torch, torch.distributed.checkpoint as dcp
        >>> import torch_go_xla.runtime as xr, torch_go_xla.distributed.spmd as xs
        >>> from torch_go_xla.experimental.distributed_checkpoint import SPMDLoadPlanner
        >>> xr.use_spmd()
        >>> folder = tempfile.mkdtemp()
        >>> metadata = dcp.save({"x": torch.ones(8)}, checkpoint_id=folder)
        >>> state = {"x": xs.mark_sharding(torch.zeros(8, device="xla"), xs.get_1d_mesh("x"), ("x",))}
        >>> dcp.load(state, storage_reader=dcp.FileSystemReader(folder), planner=SPMDLoadPlanner())
        >>> state["x"].sum().item()
        8.0
    """

    def set_up_planner(self, state_dict: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        super().set_up_planner(pytree.tree_map_only(torch.Tensor, _parted, state_dict), *args, **kwargs)
        self.original_state_dict = state_dict  # which what is not a tensor goes into


def prime_optimizer(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Give an optimizer the state that a checkpoint can be read into, by a step with gradients of zero.

    The step may change the parameters and the state: restore both afterwards.

    Args:
        optimizer: the optimizer, of parameters on the device.

    Returns:
        The optimizer.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.experimental.distributed_checkpoint import prime_optimizer
        >>> w = torch.nn.Parameter(torch.ones(2, device="xla"))
        >>> optimizer = prime_optimizer(torch.optim.Adam([w]))
        >>> sorted(optimizer.state[w])
        ['exp_avg', 'exp_avg_sq', 'step']
    """
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p.requires_grad:
                p.grad = torch.zeros_like(p)
    optimizer.step()
    optimizer.zero_grad()
    xm.mark_step(wait=True)
    return optimizer


class _Writer(FileSystemWriter):
    """Torch's, but for an interrupt: the end of the zip file that it cuts raises RuntimeError over it."""

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> torch.futures.Future[list[WriteResult]]:
        try:
            return super().write_data(plan, planner)
        except RuntimeError as e:
            if isinstance(e.__context__, KeyboardInterrupt):
                raise KeyboardInterrupt from e
            raise


class CheckpointManager:
    """Takes and keeps checkpoints of a training, and reads them.

    Args:
        path: the folder, which is made if need be; in a job, of a file system that all processes share.
        save_interval: a step whose number it divides is saved.
        max_to_keep: how many checkpoints are kept; those written first are deleted. 0 keeps all.
        max_pending_async: how many may wait to be written before `save_async` waits.
        num_of_threads: how many write a checkpoint.
        process_group: those that save together, all processes by default.
        chkpt_on_preemption: save the next step after a SIGTERM, which does not end the process any more. The
            manager is then to be made in the main thread.

    Raises:
        ValueError: a number that makes no sense.

    Example:
        >>> import tempfile, torch, torch_go_xla
        >>> from torch_go_xla.experimental.distributed_checkpoint import CheckpointManager, prime_optimizer
        >>> model = torch.nn.Linear(4, 2, device="xla")
        >>> optimizer = torch.optim.Adam(model.parameters())
        >>> state = {"model": model.state_dict(), "optimizer": prime_optimizer(optimizer).state_dict()}
        >>> manager = CheckpointManager(tempfile.mkdtemp(), save_interval=100, max_to_keep=2)
        >>> [manager.should_save(step) for step in (50, 100)]
        [False, True]
        >>> for step in (100, 150, 200, 300):
        ...     saved = manager.save_async(step, state)  # step 150 is not
        >>> manager.join()
        >>> manager.all_steps()
        [200, 300]
        >>> manager.restore(max(manager.all_steps()), state)
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
        if save_interval < 1 or max_to_keep < 0 or max_pending_async < 1 or num_of_threads < 1:
            raise ValueError("save_interval, max_pending_async, num_of_threads: want 1 or more; max_to_keep: 0 or more")
        self.base_path = Path(path)
        missing = [folder for folder in (self.base_path, *self.base_path.parents) if not folder.exists()]
        self.base_path.mkdir(parents=True, exist_ok=True)
        for folder in missing:
            whole_file.flush(os.fspath(folder.parent))
        self.save_interval, self.max_to_keep, self.num_of_threads = save_interval, max_to_keep, num_of_threads
        self.process_group = process_group
        self.chkpt_on_preemption = chkpt_on_preemption
        self._terminated = False
        if chkpt_on_preemption:
            signal.signal(signal.SIGTERM, self._terminate)
        self._max_pending_async = max_pending_async
        self._pending: list[Future[None]] = []
        self._lock = threading.RLock()  # a signal handler may save within a save

    def _terminate(self, *args: Any) -> None:
        self._terminated = True

    def all_steps(self) -> list[int]:
        """Return the steps of which there is a whole checkpoint, in their order.

        A mark that cannot be read costs its step, with a warning that names it.
        """
        return sorted(self._by_age())

    def _by_age(self) -> dict[int, Path]:
        """Return the folder of each step, the oldest first."""
        found: dict[int, tuple[float, Path]] = {}
        for folder in sorted(self.base_path.iterdir(), key=lambda f: f.name.startswith(".")):  # STEP before .STEP
            if match := _STEP.fullmatch(folder.name):
                step = int(match[1] or match[2])
                if step not in found and (written := _time_of(folder / _MARK, step)) is not None:
                    found[step] = written, folder
        return {step: folder for step, (_, folder) in sorted(found.items(), key=lambda item: item[1][0])}

    def reached_preemption(self, step: int) -> bool:
        """Tell whether a process has got SIGTERM; in a job every process asks in the same steps.

        Args:
            step: the number of the step.

        Raises:
            RuntimeError: the manager was made without ``chkpt_on_preemption``.

        Example:
            >>> import os, signal, tempfile, torch, torch_go_xla
            >>> from torch_go_xla.experimental.distributed_checkpoint import CheckpointManager
            >>> manager = CheckpointManager(tempfile.mkdtemp(), save_interval=100)
            >>> os.kill(os.getpid(), signal.SIGTERM)
            >>> manager.reached_preemption(7), manager.should_save(7)
            (True, True)
            >>> handler = signal.signal(signal.SIGTERM, signal.SIG_DFL)
        """
        if not self.chkpt_on_preemption:
            raise RuntimeError("the manager was made without chkpt_on_preemption")
        return any(told != b"\0" for told in rendezvous("preemption", bytes([self._terminated])))

    def should_save(self, step: int) -> bool:
        """Tell whether a step is to be saved: by its number, or because the process is to end.

        Args:
            step: the number of the step.
        """
        return step % self.save_interval == 0 or (self.chkpt_on_preemption and self.reached_preemption(step))

    def save(self, step: int, state_dict: dict[str, Any], force: bool = False) -> bool:
        """Save a step if `should_save`, or by ``force``.

        A checkpoint of the same step stays until the new one is whole and on the disk.

        Args:
            step: the number of the step.
            state_dict: nested dicts with tensors and other values.
            force: save it, whatever its number.

        Returns:
            Whether it was saved.

        Raises:
            OSError: a file cannot be written.
            torch.distributed.checkpoint.api.CheckpointException: a process of the job has failed to write its part.

        Example:
            >>> import tempfile, torch, torch_go_xla
            >>> from torch_go_xla.experimental.distributed_checkpoint import CheckpointManager
            >>> manager = CheckpointManager(tempfile.mkdtemp(), save_interval=100, chkpt_on_preemption=False)
            >>> manager.save(7, {"w": torch.ones(2, device="xla")}, force=True)
            True
        """
        if not (force or self.should_save(step)):
            return False
        xm.mark_step()
        self._save(step, state_dict)
        return True

    def save_async(self, step: int, state_dict: dict[str, Any], force: bool = False) -> bool:
        """Do what `save` does, and write in another thread what the tensors are now; `join` raises what fails there.

        The process ends after what is being written is whole. A call after the end of the main thread writes at once.

        Args:
            step: the number of the step.
            state_dict: nested dicts with tensors and other values.
            force: save it, whatever its number.

        Returns:
            Whether it will be saved.
        """
        if not (force or self.should_save(step)):
            return False
        self._pending = [saving for saving in self._pending if not saving.done() or saving.exception()]
        running = [saving for saving in self._pending if not saving.done()]
        if len(running) >= self._max_pending_async:
            self._wait_for(running[-self._max_pending_async])
        copied = _copied(state_dict)
        self._pending.append(_in_background(lambda: self._save(step, copied), running[-1] if running else None))
        return True

    def _save(self, step: int, state_dict: dict[str, Any]) -> None:
        with self._lock, contextlib.ExitStack() as stack:
            part = self._in_first(lambda: stack.enter_context(self._new_part(step)))
            writer = _Writer(part, thread_count=self.num_of_threads, per_thread_copy_ahead=0)
            try:
                save(state_dict, storage_writer=writer, planner=SPMDSavePlanner(), process_group=self.process_group)
            except CheckpointException as e:
                own = dist.get_rank(self.process_group) if dist.is_initialized() else 0
                if own in e.failures and isinstance(e.failures[own][0], KeyboardInterrupt):
                    raise KeyboardInterrupt from e  # another process's is a failure of the save here
                raise
            self._in_first(lambda: self._put_in_place(step, part))

    def _in_first(self, act: Callable[[], _T]) -> _T:
        """Do something in the first process; return its result, or raise its error, in all."""
        if not dist.is_initialized():
            return act()
        first = _DistWrapper(self.process_group, True, 0)
        return first.broadcast("checkpoint", act)

    @contextlib.contextmanager
    def _new_part(self, step: int) -> Iterator[Path]:
        """Make the folder that a checkpoint is written to; it goes unless it is put in place within the block."""
        self._remove_abandoned()
        name = lambda: f".{step}.{secrets.token_hex(6)}.part"  # noqa: E731
        with whole_file.new_folder(os.fspath(self.base_path), name) as (part, _):
            try:
                yield Path(part)
            finally:
                shutil.rmtree(part, ignore_errors=True)

    def _put_in_place(self, step: int, part: Path) -> None:
        """Make the whole checkpoint in a folder that of a step, and remove what it replaces and what is too many."""
        with whole_file.replacing(part / _MARK) as mark:
            mark.write(memoryview(json.dumps({"step": step, "time": time.time()}).encode()))
        folder, old = self.base_path / str(step), self._name_of_old(step)
        try:
            while part.exists():
                with contextlib.suppress(FileNotFoundError):
                    folder.rename(old)
                try:
                    part.rename(folder)
                except OSError as e:
                    if e.errno not in (errno.EEXIST, errno.ENOTEMPTY):  # a signal handler has saved the step
                        raise
        except BaseException:
            with contextlib.suppress(OSError):  # then the old one is found under that name
                if not folder.exists():
                    old.rename(folder)
            raise
        whole_file.flush(os.fspath(self.base_path))
        try:
            _remove(old)
            steps = self._by_age()
            for number in list(steps)[: len(steps) - self.max_to_keep] if self.max_to_keep else []:
                old = self._name_of_old(number)
                with contextlib.suppress(FileNotFoundError):  # a signal handler's save has removed it
                    steps[number].rename(old)
                _remove(old)
        except OSError as e:
            warnings.warn(f"step {step} is saved, but an old checkpoint cannot be removed: {e}", stacklevel=2)

    def _name_of_old(self, step: int) -> Path:
        return self.base_path / f".{step}.{secrets.token_hex(6)}.old"

    def _remove_abandoned(self) -> None:
        """Put right what processes that were killed have left, in making and in removing checkpoints."""
        used = set(self._by_age().values())
        for folder in list(self.base_path.iterdir()):
            with contextlib.suppress(OSError):
                if _PART.fullmatch(folder.name):
                    with whole_file.open_folder(os.fspath(folder)) as fd:
                        if whole_file.lock(fd):
                            shutil.rmtree(folder)
                elif (match := _STEP.fullmatch(folder.name)) and match[2]:
                    current = self.base_path / match[2]
                    if folder in used:
                        folder.rename(current)
                    elif current in used or not (folder / _MARK).exists():
                        _remove(folder)

    def restore(self, step: int, state_dict: dict[str, Any]) -> None:
        """Read a checkpoint into the tensors of a state, in place, and its other values.

        Args:
            step: one of `all_steps`.
            state_dict: nested dicts with the names of the state that was saved. Tensors keep their shardings.

        Raises:
            ValueError: there is no checkpoint of the step.
        """
        folders = self._by_age()
        if step not in folders:
            raise ValueError(f"there is no checkpoint of step {step}; there are those of {sorted(folders)}")
        reader = FileSystemReader(folders[step])
        load(state_dict, storage_reader=reader, planner=SPMDLoadPlanner(), process_group=self.process_group)

    def join(self) -> None:
        """Wait until all that `save_async` was given is written; then raise the first error of that.

        After an interrupt the writing goes on, and another call waits for it.
        """
        pending = list(self._pending)
        for saving in pending:
            self._wait_for(saving)
        self._pending = [saving for saving in self._pending if saving not in pending]
        for saving in pending:
            saving.result()

    def _wait_for(self, saving: Future[None]) -> None:
        """Wait for a save in another thread, which may have the lock of one that this signal handler interrupted."""
        lock: Any = self._lock
        held = lock._release_save() if lock._is_owned() else None  # as threading.Condition does
        try:
            saving.exception()
        finally:
            if held is not None:
                lock._acquire_restore(held)


# ---- marks ----


def _time_of(mark: Path, step: int) -> float | None:
    """Return when a checkpoint was made, None if its mark does not say that it is whole; a bad mark is warned of."""
    try:
        written = json.loads(mark.read_text())
        if written["step"] != step:
            raise ValueError(f"it is of step {written['step']}")
        return float(written["time"])
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError) as e:
        warnings.warn(f"step {step} is left out, as its mark {mark} cannot be read: {e!r}", stacklevel=2)
        return None


def _remove(folder: Path) -> None:
    """Remove a checkpoint, the mark first; nothing happens if there is none.

    The save of a signal handler removes the same one if it comes in the midst of this.
    """
    while folder.exists():
        with contextlib.suppress(FileNotFoundError):
            (folder / _MARK).unlink(missing_ok=True)
            whole_file.flush(os.fspath(folder))
            shutil.rmtree(folder)


# ---- saves in the background ----

# Not by an executor: those refuse work once the main thread has ended, and a signal handler that saves would wait for
# their locks.

# No lock: each is changed by one operation, which the interpreter does as a whole.
_unfinished: set[Future[None]] = set()
_exiting = False  # set when the main thread has ended


def _in_background(act: Callable[[], None], after: Future[None] | None) -> Future[None]:
    """Act in a thread, after another has finished; the process waits for it before it ends."""
    done: Future[None] = Future()

    def run() -> None:
        if after is not None:
            after.exception()
        try:
            act()
        except BaseException as e:
            done.set_exception(e)
        else:
            done.set_result(None)
        finally:
            _unfinished.discard(done)

    _unfinished.add(done)
    if _exiting:
        run()
        return done
    try:
        _thread.start_new_thread(run, ())
    except RuntimeError:  # there are too many
        run()
    return done


def _finish() -> None:
    """Wait for all, when the main thread has ended and before the handlers of ``atexit`` run."""
    global _exiting
    _exiting = True
    for saving in list(_unfinished):
        saving.exception()


threading._register_atexit(_finish)  # type: ignore[attr-defined]
