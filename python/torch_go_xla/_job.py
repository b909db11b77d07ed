"""The job: the processes that run a program together.

Who starts them says so in torchrun's variables: RANK and WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE for those of
one machine, MASTER_ADDR and MASTER_PORT for torch's own store, by which they find ours.
"""

from __future__ import annotations

import datetime
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_TIMEOUT = datetime.timedelta(minutes=10)  # for the processes to start


@dataclass(frozen=True)
class Job:
    """Which of how many processes this one is."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int

    def address(self) -> str:
        """Return the IPv4 address by which the other processes of the job reach this one."""
        if self.local_world_size == self.world_size:
            return "127.0.0.1"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
            probe.connect((host, port))  # sends nothing: it asks which way the machine would take
            found = str(probe.getsockname()[0])
            if not found.startswith("127."):
                return found
            probe.connect(("192.0.2.1", port))  # this machine is the master: any way out of it
            return str(probe.getsockname()[0])


def _number(name: str, default: int) -> int:
    text = os.environ.get(name) or str(default)
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{name}={text!r}: want a whole number") from None


def current() -> Job:
    """Return the job that the environment describes; ValueError if it makes no sense."""
    world_size = _number("WORLD_SIZE", 1)
    rank = _number("RANK", 0)
    job = Job(rank, world_size, _number("LOCAL_RANK", rank), _number("LOCAL_WORLD_SIZE", world_size))
    if not 0 <= rank < world_size or not 0 <= job.local_rank < job.local_world_size <= world_size:
        raise ValueError(f"the environment describes no job: {job}")
    return job


_stores: list[Any] = []  # torch's, which the first process serves as long as it lives


def adopt(store: Any, rank: int, world_size: int) -> None:
    """Take the job from a process group that is made before the device opens, where the environment has none."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world_size))
    _stores.append(store)


def _torch_store(job: Job) -> Any:
    if not _stores:
        missing = [name for name in ("MASTER_ADDR", "MASTER_PORT") if not os.environ.get(name)]
        if missing:
            raise RuntimeError(
                f"WORLD_SIZE={job.world_size}, but {' and '.join(missing)} is not set: the processes cannot find each "
                "other. Start them by torchrun or torch_go_xla.launch."
            )
        from torch.distributed.rendezvous import rendezvous

        _stores.append(next(iter(rendezvous("env://", job.rank, job.world_size, timeout=_TIMEOUT)))[0])
    return _stores[0]


def settings(serve: Callable[[str], str]) -> dict[str, Any]:
    """Return what the core needs to know of the job; ``serve`` makes it serve its store on a host."""
    job = current()
    if job.world_size == 1:
        return {"index": 0, "count": 1, "store": ""}
    from torch._C._distributed_c10d import PrefixStore

    store = PrefixStore("torch_go_xla", _torch_store(job))
    if job.rank == 0:
        store.set("address", serve(job.address()))
    return {"index": job.rank, "count": job.world_size, "store": store.get("address").decode()}
