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
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self._lock = torch.multiprocessing.get_context("spawn").Lock()

    def to(self, device: Any) -> torch.nn.Module:
        """Return the model, moved to a device."""
        with self._lock:
            self._model.to(device)
        return self._model


class MpSerialExecutor:
    """Runs functions one process after the other, such as what downloads a data set that the next process finds."""

    def __init__(self) -> None:
        self._lock = torch.multiprocessing.get_context("spawn").Lock()

    def run(self, fn: Callable[[], _R]) -> _R:
        """Return ``fn()``."""
        with self._lock:
            return fn()
