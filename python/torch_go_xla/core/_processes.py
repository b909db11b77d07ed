"""The processes of a job, by torch_xla's names; part of `xla_model`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from typing import IO, Any

from .. import runtime
from ._collectives import rendezvous
from ._nested import _maybe_convert_to_cpu


def is_master_ordinal(local: bool = True) -> bool:
    """Tell whether this is the first process.

    Args:
        local: of this machine; if False, of all machines.

    Example:
        >>> import torch_go_xla.core.xla_model as xm
        >>> xm.is_master_ordinal()
        True
    """
    return (runtime.local_ordinal() if local else runtime.global_ordinal()) == 0


def master_print(*args: Any, fd: IO[str] | None = None, local: bool = False, flush: bool = False) -> None:
    """Print in the first process only.

    Args:
        args: what ``print`` takes.
        fd: an open text file; standard output by default.
        local: print in the first process of each machine, not only in the first of all.
        flush: flush the file afterwards.

    Example:
        >>> import torch_go_xla.core.xla_model as xm
        >>> xm.master_print("epoch", 1)
        epoch 1
    """
    if is_master_ordinal(local=local):
        print(*args, file=fd or sys.stdout, flush=flush)


def get_ordinal() -> int:
    """Return the number of this process among all, from 0.

    Example:
        >>> import torch_go_xla.core.xla_model as xm
        >>> xm.get_ordinal()
        0
    """
    return runtime.global_ordinal()


def get_local_ordinal() -> int:
    """Return the number of this process on its machine, from 0.

    Example:
        >>> import torch_go_xla.core.xla_model as xm
        >>> xm.get_local_ordinal()
        0
    """
    return runtime.local_ordinal()


def xrt_world_size() -> int:
    """Return the number of processes, 1 if there is no job.

    Example:
        >>> import torch_go_xla.core.xla_model as xm
        >>> xm.xrt_world_size()
        1
    """
    return runtime.world_size()


def xla_rendezvous(payload: bytes = b"", ordinals: Sequence[int] | None = None, tag: str | None = None) -> list[bytes]:
    """Return what all processes give, in their order.

    Args:
        payload: what this process gives.
        ordinals: all processes, or None for the same.
        tag: names the call. All processes use the same tags in the same order.

    Raises:
        TypeError: the payload is not bytes.
        ValueError: ``ordinals`` does not name all processes.
        RuntimeError: a process has gone.

    Example:
        >>> import torch_go_xla.core.xla_model as xm
        >>> xm.xla_rendezvous(b"ready")
        [b'ready']
    """
    if ordinals and len(ordinals) != runtime.world_size():
        raise ValueError("Only global rendezvous is supported")
    if not isinstance(payload, bytes):
        raise TypeError(f"`payload` must be bytes, not {type(payload)}")
    return rendezvous(tag or "torch_go_xla.core.xla_model.xla_rendezvous", payload)


def do_on_ordinals(target: Callable[..., Any], data: Any = (), ordinals: Collection[int] = (0,)) -> Any:
    """Call ``target(*data)`` in some processes; the others wait until they are done.

    Args:
        target: the function.
        data: its arguments. Xla tensors in them are passed as CPU tensors.
        ordinals: the numbers of the processes that call it.

    Returns:
        What the function returns, in the processes that call it; None in the others.

    Example:
        >>> import torch, torch_go_xla.core.xla_model as xm
        >>> xm.do_on_ordinals(torch.Tensor.tolist, (torch.ones(2, device="xla"),))
        [1.0, 1.0]
    """
    running = runtime.global_ordinal() in ordinals
    cpu_data = _maybe_convert_to_cpu(data, convert=running)
    result = target(*cpu_data) if running else None
    rendezvous("torch_go_xla.core.xla_model.do_on_ordinals")
    return result
