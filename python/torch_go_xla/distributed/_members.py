"""Tensors exchanged between processes, recorded as collectives of the graph like any other op."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .. import _job
from .._backend import partitioning

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _bits(t: torch.Tensor) -> torch.Tensor:
    """Return a tensor as integers of its bits: adding them to zeros changes nothing, not even a NaN."""
    if t.is_complex():
        t = torch.view_as_real(t)
    return t.view(_INTEGERS[t.element_size()])


def check_apart() -> None:
    """Check that processes have values of their own to exchange: RuntimeError with SPMD, where they share theirs."""
    if partitioning.is_spmd() and _job.current().world_size > 1:
        raise RuntimeError(
            "with SPMD a tensor has one value for all processes: there is nothing that they could reduce or gather; "
            "collectives are for what each device has by itself, after enable_manual_sharding or to_local"
        )


class Members:
    """Some processes of the job, which exchange tensors; each of them calls the same methods in the same order.

    RuntimeError with SPMD.

    Attributes:
        ranks: the processes, in their order in the group.
        regular: whether all processes of the job can be divided into groups of this size. Collectives need that.
    """

    def __init__(self, ranks: Sequence[int]) -> None:
        check_apart()
        job = _job.current()
        self.ranks = list(ranks)
        self.rank = self.ranks.index(job.rank)
        rest = [r for r in range(job.world_size) if r not in self.ranks]
        size = len(self.ranks)
        self.regular = len(rest) % size == 0
        self._groups = [self.ranks, *(rest[i : i + size] for i in range(0, len(rest), size))]

    def __len__(self) -> int:
        return len(self.ranks)

    def all_reduce(self, t: torch.Tensor, op: str = "sum") -> torch.Tensor:
        """Return the values of all members, folded: see `partitioning.all_reduce`."""
        return t.clone() if len(self) == 1 else partitioning.all_reduce(t, op, self._groups)

    def all_gather(self, t: torch.Tensor) -> torch.Tensor:
        """Return the values of all members, one after the other along the first dimension."""
        return t.clone() if len(self) == 1 else partitioning.all_gather(t, 0, self._groups)

    def reduce_scatter(self, t: torch.Tensor, op: str = "sum") -> torch.Tensor:
        """Return this member's part, along the first dimension, of all values folded."""
        return t.clone() if len(self) == 1 else partitioning.reduce_scatter(t, op, 0, self._groups)

    def all_to_all(self, t: torch.Tensor) -> torch.Tensor:
        """Return the parts, along the first dimension, that all members have for this one."""
        return t.clone() if len(self) == 1 else partitioning.all_to_all(t, 0, 0, self._groups)

    def broadcast(self, t: torch.Tensor, root: int) -> torch.Tensor:
        """Return the value of member ``root``, bit by bit."""
        if len(self) == 1:
            return t.clone()
        bits = _bits(t)
        sent = torch.where(partitioning.partition_id(t) == self.ranks[root], bits, torch.zeros_like(bits))
        got = partitioning.all_reduce(sent, "sum", self._groups)
        return torch.view_as_complex(got.view(t.dtype.to_real())) if t.is_complex() else got.view(t.dtype)

    def send(self, t: torch.Tensor, to: int) -> None:
        """Send a tensor to a member, who calls `receive`."""
        partitioning.collective_permute(t, [(self.ranks[self.rank], self.ranks[to])])

    def receive(self, like: torch.Tensor, source: int) -> torch.Tensor:
        """Return what a member sends, a tensor of the shape and dtype of ``like``."""
        return partitioning.collective_permute(torch.zeros_like(like), [(self.ranks[source], self.ranks[self.rank])])
