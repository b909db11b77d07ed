"""Random numbers of a device, by torch_xla's names; part of `xla_model`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from .. import _XLAC
from .._backend.core import device_index
from .._core import core as _native


def set_rng_state(seed: int, device: Any = None) -> None:
    """Seed a device; the next random op is the first of the seed's stream.

    Args:
        seed: any integer of 64 bits.
        device: a device, its name or index; the current one by default.

    Example:
        >>> import torch, torch_go_xla.core.xla_model as xm
        >>> xm.set_rng_state(1)
        >>> x = torch.rand(2, device="xla")
        >>> xm.set_rng_state(1)
        >>> torch.equal(x, torch.rand(2, device="xla"))
        True
    """
    _native.manual_seed(device_index(device), seed)


def get_rng_state(device: Any = None) -> int:
    """Return the seed of a device.

    Args:
        device: a device, its name or index; the current one by default.

    Example:
        >>> import torch_go_xla.core.xla_model as xm
        >>> xm.set_rng_state(7)
        >>> xm.get_rng_state()
        7
    """
    return _XLAC._xla_get_rng_seed(f"xla:{device_index(device)}")


@contextlib.contextmanager
def fork_rng(device: Any = None, enabled: bool = True) -> Iterator[None]:
    """Restore the state of a device's random numbers when the block ends.

    Args:
        device: a device, its name or index; the current one by default.
        enabled: if False, the block changes the state as usual.

    Example:
        >>> import torch, torch_go_xla.core.xla_model as xm
        >>> with xm.fork_rng():
        ...     x = torch.rand(2, device="xla")
        >>> torch.equal(x, torch.rand(2, device="xla"))  # the same numbers again
        True
    """
    if not enabled:
        yield
        return
    generator = device_index(device)
    state = _native.get_rng_state(generator)
    try:
        yield
    finally:
        _native.set_rng_state(generator, state)
