"""The backend ``xla`` of torch.distributed: process groups whose collectives are ops of the graph.

``init_process_group("xla")``, with ``init_method="xla://"`` or any other, between processes that torchrun or
``torch_go_xla.launch`` has started. Collectives on xla tensors are recorded; CPU tensors, such as those of
``all_gather_object``, go by torch's gloo.

``init_process_group(timeout=...)`` is how long a process waits for another one that has stopped, or does not come to
what they exchange. It is TORCH_GO_XLA_JOB_TIMEOUT, 600 s, where the argument is torch's default. Then what waits is a
RuntimeError that names the process, and so is every later exchange; other programs run on.
"""

from __future__ import annotations

import datetime
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Backend, HashStore, PrefixStore
from torch.distributed.constants import default_pg_timeout
from torch.distributed.rendezvous import register_rendezvous_handler, rendezvous

from .. import _job
from .._core import core as _native
from ._members import Members

__all__ = ["XlaBackend", "register"]

_OPS = {
    dist.ReduceOp.SUM: "sum",
    dist.ReduceOp.AVG: "avg",
    dist.ReduceOp.PRODUCT: "product",
    dist.ReduceOp.MIN: "min",
    dist.ReduceOp.MAX: "max",
    dist.ReduceOp.BAND: "band",
    dist.ReduceOp.BOR: "bor",
    dist.ReduceOp.BXOR: "bxor",
}


def _op(options: Any) -> str:
    for known, name in _OPS.items():
        if options.reduceOp == known:
            return name
    raise RuntimeError(f"the xla backend cannot reduce by {options.reduceOp}")


def _done(result: Any) -> Any:
    """Return the work of something that is recorded: reading the result waits for it."""
    return _Work(result)


class _Work(dist.Work):
    """Work that is done when it is waited for; ``finish`` does it."""

    def __init__(self, result: list[torch.Tensor], finish: Callable[[], None] | None = None) -> None:
        super().__init__()
        self._result, self._finish = result, finish

    def wait(self, timeout: Any = None) -> bool:
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return self._finish is None

    is_success = is_completed

    def result(self) -> list[torch.Tensor]:
        return self._result

    def get_future(self) -> torch.futures.Future[Any]:
        self.wait()
        future: torch.futures.Future[Any] = torch.futures.Future()
        future.set_result(self._result)
        return future


class XlaBackend(Backend):
    """The collectives of a process group on xla tensors.

    Groups into which the processes of the job do not divide evenly, and parts of different sizes, go through the host
    and gloo. torch calls its methods, for the functions of ``torch.distributed``.

    Args:
        ranks: the ranks in the job of the group's processes.
        rank: the rank of this process in the group.
        host: the backend for CPU tensors.

    Raises:
        RuntimeError: at the first collective: the processes are not those of the job, or SPMD is on. torch makes this
            backend beside gloo's where none is named, so it is not checked before.

    Example:
        >>> import torch, torch.distributed as dist, torch_go_xla
        >>> dist.init_process_group("xla", init_method="xla://")  # a process that was not launched is the only one
        >>> x = torch.ones(2, device="xla")
        >>> dist.all_reduce(x)
        >>> x.tolist()
        [1.0, 1.0]
        >>> dist.destroy_process_group()
    """

    def __init__(self, ranks: list[int], rank: int, host: Any) -> None:
        super().__init__(rank, len(ranks))
        self._ranks, self._host = ranks, host

    @functools.cached_property
    def _members(self) -> Members:
        job, rank, size = _job.current(), self.rank(), self.size()
        if self._ranks[rank] != job.rank or size > job.world_size:
            raise RuntimeError(
                f"process {job.rank} of a job of {job.world_size} cannot be rank {self._ranks[rank]} of a process "
                f"group of {size}: RANK and WORLD_SIZE must be set before the first xla tensor"
            )
        return Members(self._ranks)

    def getBackendName(self) -> str:  # noqa: N802 (torch's name)
        return "xla"

    @property
    def supports_coalescing(self) -> bool:
        return False

    def _by_host(self, name: str, *args: Any) -> Any:
        """Run a collective of gloo on CPU copies of tensors, which are written back."""
        moved: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

        def copy(x: Any) -> Any:
            if isinstance(x, torch.Tensor):
                return moved.setdefault(id(x), (x, x.cpu()))[1]
            return [copy(y) for y in x] if isinstance(x, list) else x

        getattr(self._host, name)(*copy(list(args))).wait()
        for x, value in moved.values():
            x.copy_(value)
        return _done([x for x, _ in moved.values()])

    # ---- reductions ----

    def allreduce(self, tensors: list[torch.Tensor], opts: Any) -> Any:
        if not self._members.regular:
            return self._by_host("allreduce", tensors, opts)
        for t in tensors:
            t.copy_(self._members.all_reduce(t, _op(opts)))
        return _done(tensors)

    allreduce_coalesced = allreduce

    def reduce(self, tensors: list[torch.Tensor], opts: Any) -> Any:
        if not self._members.regular:
            return self._by_host("reduce", tensors, opts)
        for t in tensors:
            value = self._members.all_reduce(t, _op(opts))
            if opts.rootRank == self.rank():
                t.copy_(value)
        return _done(tensors)

    def reduce_scatter(self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any) -> Any:
        if not self._members.regular or not _even(inputs):
            return self._by_host("reduce_scatter", outputs, inputs, opts)
        for out, parts in zip(outputs, inputs, strict=True):
            out.copy_(self._members.reduce_scatter(torch.stack(parts), _op(opts)).squeeze(0))
        return _done(outputs)

    def reduce_scatter_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any) -> Any:
        if not self._members.regular:
            return self._by_host("reduce_scatter_single", output, input, opts)
        rows = input.reshape(len(self._members), -1)
        output.copy_(self._members.reduce_scatter(rows, _op(opts)).view_as(output))
        return _done([output])

    def reduce_scatter_single_coalesced(
        self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any
    ) -> Any:
        for output, input in zip(outputs, inputs, strict=True):
            self.reduce_scatter_single(output, input, opts)
        return _done(outputs)

    # ---- copies ----

    def broadcast(self, tensors: list[torch.Tensor], opts: Any) -> Any:
        if not self._members.regular:
            return self._by_host("broadcast", tensors, opts)
        for t in tensors:
            t.copy_(self._members.broadcast(t, opts.rootRank))
        return _done(tensors)

    def allgather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None) -> Any:
        regular = self._members.regular
        for parts, t in zip(outputs, inputs, strict=True):
            if regular and _even([parts]):
                self._gathered(parts, t)
            else:
                for root, part in enumerate(parts):
                    self._broadcast_from(root, part, t)
        return _done([t for parts in outputs for t in parts])

    def _gathered(self, parts: list[torch.Tensor], t: torch.Tensor) -> None:
        for part, value in zip(parts, self._members.all_gather(t.unsqueeze(0)), strict=True):
            part.copy_(value)

    def _broadcast_from(self, root: int, part: torch.Tensor, own: torch.Tensor) -> None:
        if root == self.rank():
            part.copy_(own)
        options = dist.BroadcastOptions()
        options.rootRank = root
        self.broadcast([part], options)

    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Any:
        if not self._members.regular:
            return self._by_host("all_gather_single", output, input, opts)
        output.copy_(self._members.all_gather(input.reshape(1, -1)).view_as(output))
        return _done([output])

    def all_gather_single_coalesced(
        self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None
    ) -> Any:
        for output, input in zip(outputs, inputs, strict=True):
            self.all_gather_single(output, input, opts)
        return _done(outputs)

    def gather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any) -> Any:
        for i, t in enumerate(inputs):
            if not self._members.regular:
                return self._by_host("gather", outputs, inputs, opts)
            values = self._members.all_gather(t.unsqueeze(0))
            if opts.rootRank == self.rank():
                for part, value in zip(outputs[i], values, strict=True):
                    part.copy_(value)
        return _done([t for parts in outputs for t in parts])

    def scatter(self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any) -> Any:
        if not self._members.regular:
            return self._by_host("scatter", outputs, inputs, opts)
        for i, out in enumerate(outputs):
            root = opts.rootRank == self.rank()
            parts = torch.stack(inputs[i]) if root else out.new_zeros(len(self._members), *out.shape)
            out.copy_(self._members.broadcast(parts, opts.rootRank)[self.rank()])
        return _done(outputs)

    def alltoall(self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None) -> Any:
        if not self._members.regular or not _even([outputs, inputs]):
            return self._by_host("alltoall", outputs, inputs, opts)
        for out, value in zip(outputs, self._members.all_to_all(torch.stack(inputs)), strict=True):
            out.copy_(value)
        return _done(outputs)

    def all_to_all_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_split_sizes: list[int],
        input_split_sizes: list[int],
        opts: Any = None,
    ) -> Any:
        if not self._members.regular or len({*output_split_sizes}) > 1 or len({*input_split_sizes}) > 1:
            return self._by_host("all_to_all_single", output, input, output_split_sizes, input_split_sizes, opts)
        output.copy_(self._members.all_to_all(input.reshape(len(self._members), -1)).view_as(output))
        return _done([output])

    # ---- from one process to another ----
    #
    # Each is a program of its own, in the order of the calls. In a program with other collectives, the compiler could
    # let one that waits for the other process come first. A receive waits, so it runs when its work is waited for:
    # what is sent meanwhile is not held up.

    def send(self, tensors: list[torch.Tensor], dst: int, tag: int) -> Any:
        def transmit() -> None:
            for t in tensors:
                self._members.send(t, dst)

        self._alone(transmit)
        return _done(tensors)

    def recv(self, tensors: list[torch.Tensor], src: int, tag: int) -> Any:
        def receive() -> None:
            for t in tensors:
                t.copy_(self._members.receive(t, src))

        return _Work(tensors, lambda: self._alone(receive))

    @staticmethod
    def _alone(record: Callable[[], Any]) -> None:
        _native.sync_all(-1, False)
        record()
        _native.sync_all(-1, False)

    def barrier(self, opts: Any) -> Any:
        _native.sync_all(-1, True)
        self._host.barrier(opts).wait()
        return _done([])


def _even(lists: list[list[torch.Tensor]]) -> bool:
    """Tell whether all tensors have the same shape."""
    return len({t.shape for tensors in lists for t in tensors}) <= 1


def _create(options: Any, _: Any) -> XlaBackend:
    """Make the backend of a process group; the one for CPU tensors beside it."""
    store, rank, size = options.store, options.group_rank, options.group_size
    ranks = list(options.global_ranks_in_group) or list(range(size))
    if _job.current().world_size == 1 < size and not _native.opened:
        _job.adopt(store, rank, size)
    if not dist.is_initialized() and options.timeout != default_pg_timeout:  # of the group of all processes
        _native.set_job_timeout(options.timeout.total_seconds())
    host = dist.ProcessGroupGloo(PrefixStore(f"{_job.scope()}/host", store), rank, size, options.timeout)
    group = options.process_group
    if torch.device("cpu") not in group._device_types:
        group._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, host)
    return XlaBackend(ranks, rank, host)


def _meet(
    url: str, timeout: datetime.timedelta = datetime.timedelta(minutes=10), **options: Any
) -> Iterator[tuple[Any, int, int]]:
    """Find the other processes, for ``init_method="xla://"``; a process that was not launched is the only one."""
    if "RANK" in os.environ or "WORLD_SIZE" in os.environ:
        for store, rank, size in rendezvous("env://", timeout=timeout):
            yield PrefixStore(_job.scope(), store), rank, size
    else:
        yield HashStore(), 0, 1


def register() -> None:
    """Register the backend "xla" and the initialization method "xla://" with torch. The import of the package does so.

    Example:
        >>> import torch.distributed as dist, torch_go_xla
        >>> "xla" in dist.Backend.backend_list
        True
    """
    dist.Backend.register_backend("xla", _create, extended_api=True, devices=["xla"])
    register_rendezvous_handler("xla", _meet)  # type: ignore[no-untyped-call]
