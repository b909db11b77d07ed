"""Starts processes: torch_xla's ``torch_xla.distributed.xla_multiprocessing``, usually imported as ``xmp``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.multiprocessing

from .._launch import spawn

__all__ = ["MpModelWrapper", "MpSerialExecutor", "spawn"]

_R = TypeVar("_R")


class MpModelWrapper:
    """Moves a model to the device, one process after the other.

    Made once, where the processes are started, and passed to them; each takes its copy of the model by `to`.

    Args:
        model: the model, on the CPU.

    Example:
        >>> import torch, torch_go_xla.core.xla_model as xm
        >>> import torch_go_xla.distributed.xla_multiprocessing as xmp
        >>> def train(index, wrapper):
        ...     model = wrapper.to(xm.xla_device())
        ...     print(next(model.parameters()).device)
        >>> xmp.spawn(train, args=(xmp.MpModelWrapper(torch.nn.Linear(4, 2)),), nprocs=1)
        xla:0
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self._lock = torch.multiprocessing.get_context("spawn").Lock()

    def to(self, device: Any) -> torch.nn.Module:
        """Return the model, moved to a device.

        Args:
            device: the device.
        """
        with self._lock:
            self._model.to(device)
        return self._model


class MpSerialExecutor:
    """Runs functions one process after the other, such as one that downloads a data set, which the next process finds.

    Example:
        >>> import torch_go_xla.distributed.xla_multiprocessing as xmp
        >>> def train(index, serial):
        ...     data = serial.run(lambda: list(range(3)))
        ...     print(data)
        >>> xmp.spawn(train, args=(xmp.MpSerialExecutor(),), nprocs=1)
        [0, 1, 2]
    """

    def __init__(self) -> None:
        self._lock = torch.multiprocessing.get_context("spawn").Lock()

    def run(self, fn: Callable[[], _R]) -> _R:
        """Return ``fn()``, which no other process calls at the same time.

        Args:
            fn: the function, without arguments.
        """
        with self._lock:
            return fn()
