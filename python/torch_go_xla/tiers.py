"""How graphs run on the CPU device: compiled by XLA, or op by op by torch's own kernels.

A graph that runs op by op starts at once; one that is compiled runs faster each time. Both give the same results, but
for the rounding: an op's kernel and the compiler's code add in different orders. A graph with an op that has no such
kernel is compiled, as is everything on other devices and with SPMD.

- ``auto``: it runs op by op until a compilation is predicted to pay (the default). That is a function of the graph and
  of how often it was seen, so two runs of a program give the same bits.
- ``compile``: XLA compiles it before it first runs.
- ``eager``: it runs op by op, always.
- ``background``: it runs op by op while XLA compiles it. Which run is the first compiled one depends on the time.

``XLA_TIER`` sets it for a process.
"""

from __future__ import annotations

import contextlib
from types import TracebackType

from ._core import core as _native

__all__ = ["get_tier", "set_tier"]

_MODES = ("compile", "eager", "auto", "background")


class set_tier(contextlib.ContextDecorator):  # noqa: N801 - as torch.set_grad_enabled
    """Set how graphs run that are synced from now on; as a context manager or decorator, within it.

    What is recorded and not synced runs as is set when it is synced. Functions of `torch_go_xla.compile` are compiled
    in every mode.

    Args:
        mode: ``compile``, ``eager``, ``auto`` or ``background``.

    Raises:
        ValueError: there is no such mode.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.tiers import get_tier, set_tier
        >>> with set_tier("eager"):
        ...     x, mode = torch.ones(2, device="xla") + 1, get_tier()
        ...     torch_go_xla.sync()
        >>> x.tolist(), mode
        ([2.0, 2.0], 'eager')
    """

    def __init__(self, mode: str) -> None:
        if mode not in _MODES:
            raise ValueError(f"tier {mode!r}: want {', '.join(_MODES)}")
        self._mode = mode
        self._before = get_tier()
        _native.configure("XLA_TIER", mode)

    def __enter__(self) -> None:
        _native.configure("XLA_TIER", self._mode)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _native.configure("XLA_TIER", self._before)


def get_tier() -> str:
    """Return the mode that `set_tier` or ``XLA_TIER`` has set.

    Example:
        >>> from torch_go_xla.tiers import get_tier, set_tier
        >>> with set_tier("compile"):
        ...     get_tier()
        'compile'
    """
    _native.open()
    return _native.setting("XLA_TIER")
