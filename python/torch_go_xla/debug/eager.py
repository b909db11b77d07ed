"""A mode in which each op has run when its line returns: for debuggers, and to find the line of a failure.

Nothing else changes: it is the device that computes, by programs of one op each. That is slow. Functions under
`torch_go_xla.compile` are recorded whole, as without it. ``XLA_TIER=eager`` is something else: see
`torch_go_xla.tiers`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from .._backend.eager import Eager

__all__ = ["eager"]


@contextlib.contextmanager
def eager() -> Iterator[None]:
    """Let every op of a block run on the device before its line returns; what fails is raised there.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.debug.eager import eager
        >>> with eager():
        ...     x = torch.ones(2, device="xla") + 1  # has been computed
        >>> x.tolist()
        [2.0, 2.0]
    """
    with Eager():  # type: ignore[no-untyped-call]
        yield
