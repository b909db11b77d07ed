"""Why graphs were compiled: what each new one has that the earlier ones had not.

A training loop compiles one or two programs and then none. If it goes on compiling, ask::

    from torch_go_xla.debug import compilations
    print(compilations.explain())      # the latest
    compilations.recent()              # all that are remembered; a table in a notebook

``PT_XLA_DEBUG_LEVEL=1`` writes the same to stderr as it happens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import overload

from .._backend import html
from .._core import core as _native

__all__ = ["Compilation", "Compilations", "explain", "recent"]


@dataclass(frozen=True)
class Compilation:
    """One graph that was compiled, compared with the earlier graph that agrees longest with it.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.debug import compilations
        >>> for size in (11, 12):
        ...     x = torch.ones(size, device="xla") * 2
        ...     torch_go_xla.sync()
        >>> latest = compilations.recent()[-1]
        >>> latest.device, latest.results
        ('xla:0', 1)
    """

    step: int  # the sync that met it, from 1
    program: str  # the key of the program, in hexadecimal
    device: str
    nodes: int
    parameters: int
    results: int
    nearest: int  # the step of the graph compared with; 0: there was none
    equal: int  # how many leading nodes the two have in common
    was: str  # the first node that differs, as it was
    now: str  # and as it is
    where: str  # "file:line" that recorded it; "" for what autograd records
    reason: str
    tier: str  # of a graph that runs op by op: how often it was seen, and from when on a compilation is worth it

    def __str__(self) -> str:
        ran = f"runs {self.tier}, a program" if self.tier else "compiled a program"
        lines = [f"step {self.step} on {self.device} {ran} of {self.nodes} nodes: {self.reason}"]
        if self.nearest:
            lines.append(f"  nearest: the program of step {self.nearest}, equal up to node {self.equal}")
            lines += [f"  was: {self.was}", f"  now: {self.now}"]
        if self.where:
            lines.append(f"  at:  {self.where}")
        return "\n".join(lines)


class Compilations(Sequence[Compilation]):
    """Compilations, the oldest first; a notebook shows them as a table.

    Args:
        items: the compilations.

    Example:
        >>> from torch_go_xla.debug.compilations import Compilations
        >>> Compilations([])
        nothing was compiled
    """

    def __init__(self, items: Sequence[Compilation]) -> None:
        self._items = list(items)

    @overload
    def __getitem__(self, index: int) -> Compilation: ...
    @overload
    def __getitem__(self, index: slice) -> Compilations: ...
    def __getitem__(self, index: int | slice) -> Compilation | Compilations:
        if isinstance(index, slice):
            return Compilations(self._items[index])
        return self._items[index]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Compilation]:
        return iter(self._items)

    def __repr__(self) -> str:
        return "\n".join(str(c) for c in self._items) or "nothing was compiled"

    def _repr_html_(self) -> str:
        names = ("step", "device", "nodes", "reason", "was", "now", "where")
        return html.table(([getattr(c, n) for n in names] for c in self._items), names)


def recent() -> Compilations:
    """Return the latest compilations of this process, at most 64.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.debug import compilations
        >>> x = torch.ones(13, device="xla") * 2
        >>> torch_go_xla.sync()
        >>> len(compilations.recent()) > 0
        True
    """
    names = {f.name for f in fields(Compilation)}
    return Compilations([Compilation(**{k: v for k, v in c.items() if k in names}) for c in _native.compilations()])


def explain() -> str:
    """Return in words why the latest graph was compiled.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.debug import compilations
        >>> from torch_go_xla.tiers import set_tier
        >>> with set_tier("compile"):
        ...     for size in (14, 15):
        ...         x = torch.ones(size, device="xla") * 2
        ...         torch_go_xla.sync()
        >>> print(compilations.explain())
        step ... on xla:0 compiled a program of ... nodes: ...
    """
    latest = recent()[-1:]
    return str(latest[0]) if latest else "nothing was compiled"
