"""What happens when a value is computed: torch_xla's ``torch_xla.experimental.callback``."""

from __future__ import annotations

import threading
from collections.abc import Callable

import torch

from .. import _XLAC

__all__ = ["on_ready_callback", "on_ready_event"]


def on_ready_callback(tensor: torch.Tensor, callback: Callable[[torch.Tensor], object]) -> None:
    """Compute a tensor and call ``callback(tensor)``, in a thread of its own, when it is there.

    Args:
        tensor: a tensor on an xla device.
        callback: the function.

    Raises:
        RuntimeError: the tensor is not on an xla device.

    Example:
        >>> import threading, torch, torch_go_xla
        >>> from torch_go_xla.experimental.callback import on_ready_callback
        >>> values, done = [], threading.Event()
        >>> on_ready_callback(torch.ones(2, device="xla") + 1, lambda t: (values.append(t.tolist()), done.set()))
        >>> done.wait(), values
        (True, [[2.0, 2.0]])
    """
    _XLAC._xla_sync_multi([tensor], wait=False)

    def wait() -> None:
        _XLAC._xla_sync_multi([tensor], wait=True)
        callback(tensor)

    threading.Thread(target=wait, name="on_ready_callback", daemon=True).start()


def on_ready_event(tensor: torch.Tensor) -> threading.Event:
    """Compute a tensor and return an event that is set when it is there.

    Args:
        tensor: a tensor on an xla device.

    Raises:
        RuntimeError: the tensor is not on an xla device.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.experimental.callback import on_ready_event
        >>> on_ready_event(torch.ones(2, device="xla") + 1).wait()
        True
    """
    event = threading.Event()
    on_ready_callback(tensor, lambda _: event.set())
    return event
