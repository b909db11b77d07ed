"""Starts the processes of a job on this machine."""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import sys
from collections.abc import Callable, Iterator
from typing import Any

from . import _job, plugins


def launch(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), start_method: str = "spawn", debug_single_process: bool = False
) -> Any:
    """Run ``fn(index, *args)`` in a process for each device of the machine; under torchrun, in this one.

    For the device CPU, CPU_NUM_DEVICES is the number of processes.

    Args:
        fn: the function. Its first argument is the number of the process on this machine.
        args: its other arguments, which must be picklable.
        start_method: ``"spawn"`` or ``"forkserver"``.
        debug_single_process: run it in this process only.

    Returns:
        None. For a single process outside of torchrun, what the function returns.

    Raises:
        ValueError: the start method is ``"fork"``, which the runtime does not survive.
        RuntimeError: the function is defined in a notebook, from which other processes cannot import it.
        torch.multiprocessing.ProcessRaisedException: the function has raised in a process. The others are ended.

    Example:
        >>> import torch_go_xla
        >>> def train(index, epochs):
        ...     print(f"process {index} trains for {epochs} epochs")
        >>> torch_go_xla.launch(train, args=(2,), debug_single_process=True)
        process 0 trains for 2 epochs
    """
    if "LOCAL_RANK" in os.environ:
        fn(_job.current().local_rank, *args)
        return None
    return spawn(fn, args, nprocs=1 if debug_single_process else None, start_method=start_method)


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int | None = None,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> Any:
    """Run ``fn(index, *args)`` in processes of this machine. A single process is this one.

    Args:
        fn: the function, which must be picklable, as its arguments must be.
        args: its arguments after the number of the process.
        nprocs: how many processes; one for each device of the machine by default.
        join: wait until all have ended. A process that fails ends the others, and its error is raised.
        daemon: the processes end with this one.
        start_method: ``"spawn"`` or ``"forkserver"``.

    Returns:
        None once all have ended, or with ``join=False`` the context of torch.multiprocessing to wait with. Of a single
        process, what the function returns.

    Raises:
        ValueError: more processes than devices, other than on the CPU; or the start method ``"fork"``, which the
            runtime does not survive.
        RuntimeError: the function is defined in a notebook, from which other processes cannot import it.
        torch.multiprocessing.ProcessRaisedException: the function has raised in a process.

    Example:
        >>> import torch_go_xla.distributed.xla_multiprocessing as xmp
        >>> xmp.spawn(lambda index: print("process", index), nprocs=1)
        process 0
    """
    device = os.environ.get("PJRT_DEVICE", "CPU").upper()
    devices = plugins.find_plugin(device).process_count()
    count = devices if nprocs is None else nprocs
    if count < 1 or (count > devices and device != "CPU"):
        raise ValueError(f"cannot run {count} processes: PJRT_DEVICE={device} has {devices} device(s) here")
    if start_method == "fork":
        raise ValueError("torch_go_xla cannot be used in a forked child: use the 'spawn' start method")
    if count == 1:
        with _alone():
            return fn(0, *args)
    _check_importable(fn)
    from torch._C._distributed_c10d import TCPStore
    from torch.multiprocessing.spawn import start_processes

    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    context = start_processes(  # type: ignore[no-untyped-call]
        _run, (fn, args, count, store.port, secrets.token_hex(32)), count, join, daemon, start_method
    )
    if context is not None:
        context.store = store  # which serves as long as the processes are waited for
    return context


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Describe this process as a job of one, which init_process_group asks for, unless it is described already."""
    job = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    missing = job.keys() - os.environ.keys()
    if not {"RANK", "WORLD_SIZE"} <= missing:
        yield
        return
    os.environ.update({name: job[name] for name in missing})
    try:
        yield
    finally:
        for name in missing:
            os.environ.pop(name, None)


def _check_importable(fn: Callable[..., Any]) -> None:
    """Raise what to do about a function that the other processes could not import: one of a notebook or a shell."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    here = sys.modules["__main__"]
    if getattr(fn, "__module__", None) == "__main__" and not hasattr(here, "__file__"):
        name = getattr(fn, "__qualname__", fn)
        raise RuntimeError(
            f"other processes cannot import {name!r}, which is defined in a notebook or shell: write it to a file, "
            "`%%writefile train.py`, and pass the function of `import train`"
        )


def _run(index: int, fn: Callable[..., Any], args: tuple[Any, ...], count: int, port: int, secret: str) -> None:
    """Be process ``index`` of a job, as torchrun describes one."""
    number, size = str(index), str(count)
    os.environ.update(
        RANK=number,
        LOCAL_RANK=number,
        WORLD_SIZE=size,
        LOCAL_WORLD_SIZE=size,
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
        TORCHELASTIC_USE_AGENT_STORE="True",  # the process that starts the others serves torch's store
        TORCHELASTIC_RESTART_COUNT="0",
        **{_job.SECRET: secret},
    )
    if os.environ.get("PJRT_DEVICE", "CPU").upper() == "CPU":
        os.environ["CPU_NUM_DEVICES"] = "1"
    fn(index, *args)
