"""What the devices say to each other: the collectives of compiled programs.

For example::

    from torch_go_xla import debug
    for c in debug.collectives(step):
        print(c)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .._core import core as _native

__all__ = ["Collective", "collectives"]


@dataclass(frozen=True)
class Collective:
    """One exchange of data between devices, as the compiler left it.

    Example:
        >>> from torch_go_xla.debug import Collective
        >>> print(Collective("all-reduce", ("f32[8,4]",), 128, ((0, 1), (2, 3))))
        all-reduce f32[8,4] (128 bytes) among [0,1] [2,3]
    """

    kind: str  # all-reduce, all-gather, reduce-scatter, all-to-all, collective-permute, …
    shapes: tuple[str, ...]  # of the results on one device, "f32[8,4]"; several where the compiler has combined some
    bytes: int  # of the results on one device
    groups: tuple[tuple[int, ...], ...]  # who exchanges with whom, () for everybody; for a permute, source and target

    def __str__(self) -> str:
        groups = " ".join(f"[{','.join(map(str, g))}]" for g in self.groups) or "everybody"
        return f"{self.kind} {' '.join(self.shapes)} ({self.bytes} bytes) among {groups}"


def collectives(step: Callable[[], Any]) -> list[Collective]:
    """Run a step, sync, and return the collectives of the programs that it ran, in the order of the programs.

    What is recorded before is computed first and does not count.

    Args:
        step: the step, without arguments. What it raises is raised.

    Example:
        Four devices (``CPU_NUM_DEVICES=4``) with a quarter of a sum each:

        >>> import torch, torch_go_xla.runtime as xr, torch_go_xla.distributed.spmd as xs
        >>> from torch_go_xla import debug
        >>> xr.use_spmd()
        >>> x = xs.mark_sharding(torch.ones(8, device="xla"), xs.get_1d_mesh("x"), ("x",))
        >>> for collective in debug.collectives(lambda: x.sum()):
        ...     print(collective)
        all-reduce f32[] (4 bytes) among ...
    """
    _native.open()
    _native.sync_all(-1, False)
    _native.watch()
    try:
        kept = step()  # what no one keeps would not be computed
        _native.sync_all(-1, False)
        del kept
    finally:
        found = _native.collectives()
    return [
        Collective(c["kind"], tuple(c["shapes"] or ()), c["bytes"], tuple(tuple(g) for g in c["groups"] or ()))
        for program in found
        for c in program
    ]
