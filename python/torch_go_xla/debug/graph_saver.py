"""Writes graphs to files: torch_xla's ``torch_xla.debug.graph_saver``."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import torch

from .. import _XLAC

__all__ = ["save_tensors_graph"]

_lock = threading.Lock()
_saved: Counter[tuple[int, str]] = Counter()  # by thread and name; guarded by _lock

_FORMATS = {"text": _XLAC._get_xla_tensors_text, "dot": _XLAC._get_xla_tensors_dot, "hlo": _XLAC._get_xla_tensors_hlo}


def save_tensors_graph(save_dir: str | os.PathLike[str], name: str, tensors: Sequence[torch.Tensor]) -> None:
    """Write the recorded graph of tensors to ``save_dir/name-THREAD-COUNT.FORMAT``.

    The variable SAVE_GRAPH_FMT is the format: text (default), dot or hlo.

    Args:
        save_dir: a directory, which exists.
        name: the first part of the file's name.
        tensors: tensors on xla devices. Nothing is computed.

    Raises:
        RuntimeError: SAVE_GRAPH_FMT is another format.
        OSError: the file cannot be written.

    Example:
        >>> import os, tempfile, torch, torch_go_xla
        >>> from torch_go_xla.debug.graph_saver import save_tensors_graph
        >>> folder = tempfile.mkdtemp()
        >>> save_tensors_graph(folder, "loss", [torch.ones(2, device="xla") + 1])
        >>> os.listdir(folder)
        ['loss-...-0.text']
    """
    form = os.environ.get("SAVE_GRAPH_FMT", "text")
    if form not in _FORMATS:
        raise RuntimeError(f"Invalid save graph format: {form}")
    thread = threading.get_ident()
    with _lock:
        count = _saved[thread, name]
        _saved[thread, name] += 1
    Path(save_dir, f"{name}-{thread}-{count}.{form}").write_text(_FORMATS[form](tensors), encoding="utf-8")
