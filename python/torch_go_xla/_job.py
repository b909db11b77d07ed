"""The job: the processes that run a program together.

Who starts them says so in torchrun's variables: RANK and WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE for those of
one machine, MASTER_ADDR and MASTER_PORT for torch's own store, by which they find ours.

Our store serves processes that know the secret of the job. That is TORCH_GO_XLA_JOB_SECRET where it is set, as `launch`
does. Otherwise the first process draws it. It is in a file of mode 0600 if all processes are on one machine. If they
are not, it is in torch's store, and as safe as that store.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import secrets
import socket
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

SECRET = "TORCH_GO_XLA_JOB_SECRET"  # 16 characters or more, the same in all processes
TIMEOUT = "TORCH_GO_XLA_JOB_TIMEOUT"  # seconds to wait for the others, at the start too

_NO_LIMIT = datetime.timedelta(days=3650)  # torch's store wants a time
_REFUSED = 30.0  # seconds in which a store that refuses this process may give way to the right one
_SLICE = 0.05  # seconds between two looks


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
        host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        found = _address_towards(host, port)
        if not found.startswith("127.") or host == "localhost" or host.startswith("127.0.0."):
            return found
        try:  # this machine is the master, whose name is a loopback address here
            return _address_towards("192.0.2.1", port)
        except OSError:  # it has no network: all processes are here
            return found


def _address_towards(host: str, port: int) -> str:
    """Return the address of this machine that packets to another have; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, port))
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


_stores: list[Any] = []  # torch's, one at most, which the first process serves as long as it lives; set once


def adopt(store: Any, rank: int, world_size: int) -> None:
    """Take the job from a process group that is made before the device opens, where the environment has none."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world_size))
    _stores.append(store)


def _torch_store(job: Job, timeout: datetime.timedelta) -> Any:
    if not _stores:
        missing = [name for name in ("MASTER_ADDR", "MASTER_PORT") if not os.environ.get(name)]
        if missing:
            raise RuntimeError(
                f"WORLD_SIZE={job.world_size}, but {' and '.join(missing)} is not set: the processes cannot find each "
                "other. Start them by torchrun or torch_go_xla.launch."
            )
        from torch.distributed.rendezvous import rendezvous

        _stores.append(next(iter(rendezvous("env://", job.rank, job.world_size, timeout=timeout)))[0])
    return _stores[0]


def scope() -> str:
    """Return where in torch's store the keys of this attempt to run the job are.

    A store of the agents outlives the attempt. Another is new in each. There the count of restarts does not belong to
    the name: an agent counts its own, so one that joins later has counted fewer.
    """
    run = os.environ.get("TORCHELASTIC_RUN_ID", "")
    of_agents = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "") if of_agents else ""
    return f"torch_go_xla/{run}/{attempt}/{current().world_size}"


@contextlib.contextmanager
def _private_file(text: str) -> Iterator[str]:
    """Keep a text in a file that no one else can read; its path is gone afterwards."""
    fd, path = tempfile.mkstemp(prefix="torch_go_xla-job-")  # of mode 0600
    try:
        with open(fd, "w") as file:
            file.write(text)
        yield path
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _read_private(path: str) -> str:
    """Return what `_private_file` keeps; PermissionError if another user could have written or can read it."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd) as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise PermissionError(f"{path}, said to hold the secret of the job, is not a private file of this user")
        return file.read(1024)


@contextlib.contextmanager
def _offer(job: Job, serve: Callable[[str, str], str]) -> Iterator[str]:
    """Serve the store of the job; the text tells the other processes how they reach it."""
    secret = os.environ.get(SECRET) or secrets.token_hex(32)
    offer = {"address": serve(job.address(), secret)}
    with contextlib.ExitStack() as stack:
        if os.environ.get(SECRET):
            pass
        elif job.local_world_size == job.world_size:
            offer["file"] = stack.enter_context(_private_file(secret))
        else:
            offer["secret"] = secret
        yield json.dumps(offer)


def _secret_of(offer: dict[str, str]) -> str:
    if known := os.environ.get(SECRET):
        return known
    return _read_private(offer["file"]) if "file" in offer else offer["secret"]


def _reach(
    store: Any, reach: Callable[[str, str], bool], given_up: threading.Event, timeout: datetime.timedelta
) -> None:
    """Connect to the store of the job.

    What torch's store says may be left over from processes that have ended: it is read again until it fits.
    """
    key = f"{scope()}/store"
    deadline = time.monotonic() + timeout.total_seconds()
    patience: float | None = None
    while not given_up.wait(_SLICE):
        if time.monotonic() > deadline:
            raise RuntimeError(f"process 0 of the job serves no store that can be reached within {timeout}")
        if not store.check([key]):
            continue
        try:
            offer = json.loads(store.get(key))
            if reach(offer["address"], _secret_of(offer)):
                return
        except FileNotFoundError:  # of an earlier attempt
            continue
        except (RuntimeError, PermissionError):
            patience = patience or time.monotonic() + _REFUSED
            if time.monotonic() > patience:
                raise
        except (ValueError, KeyError, TypeError) as e:
            raise RuntimeError(f"torch's store has no address of the job's store under {key}") from e
    raise InterruptedError


@contextlib.contextmanager
def joined(
    job: Job,
    timeout: int,
    serve: Callable[[str, str], str],
    reach: Callable[[str, str], bool],
    given_up: threading.Event,
) -> Iterator[None]:
    """Connect to the store of the job, which the first process serves, and let the others do so meanwhile.

    Args:
        job: the job, of several processes.
        timeout: seconds to wait for the others; 0: no limit.
        serve: makes the store listen on a host for those who know a secret, and returns its address.
        reach: connects to it; False if it cannot be reached, RuntimeError if it refuses this process.
        given_up: ends the waiting, by InterruptedError.
    """
    limit = datetime.timedelta(seconds=timeout) if timeout else _NO_LIMIT
    store = _torch_store(job, limit)
    with contextlib.ExitStack() as stack:
        if job.rank == 0:
            store.set(f"{scope()}/store", stack.enter_context(_offer(job, serve)))
        _reach(store, reach, given_up, limit)
        yield


def interruptibly(work: Callable[[threading.Event], None], leave: Callable[[], None]) -> None:
    """Run ``work`` in a thread, so that an interrupt arrives while it waits in C++ or in the core.

    If it raises, or an interrupt comes, ``leave`` is called, which ends its waiting; the event then is set.
    """
    given_up, failed = threading.Event(), []

    def run() -> None:
        try:
            work(given_up)
        except BaseException as e:
            failed.append(e)

    thread = threading.Thread(target=run, name="torch_go_xla job", daemon=True)
    thread.start()
    try:
        thread.join()
    except BaseException:
        given_up.set()
        leave()
        thread.join(0.5)  # unless torch's store is waited for in C++, which ends with the process
        raise
    if failed:
        leave()
        raise failed[0]
