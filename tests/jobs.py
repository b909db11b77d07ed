"""Runs the same program in several processes that form a job."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection

from processes import Outcome, command
from torch.distributed import TCPStore


def agent() -> TCPStore:
    """Return a store of torch's, as torchrun serves one for its processes."""
    return TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)


def start(program: str, rank: int, processes: int, store: TCPStore, **env: str) -> subprocess.Popen[str]:
    """Start one process of a job, which is told of the others as by torchrun."""
    job = {
        **{"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": processes, "LOCAL_WORLD_SIZE": processes},
        **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": store.port},
        **{"TORCHELASTIC_USE_AGENT_STORE": True, "TORCHELASTIC_RESTART_COUNT": 0},
    }
    return subprocess.Popen(
        command(program),
        env={**os.environ, **{k: str(v) for k, v in job.items()}, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(
    program: str,
    processes: int,
    timeout: float = 240,
    store: TCPStore | None = None,
    stuck: Collection[int] = (),
    **env: str,
) -> list[Outcome]:
    """Run a program in the processes of a job; none may outlast the timeout.

    ``stuck`` are processes that do not end: they are killed when the others have ended.
    """
    store = store or agent()
    started = [start(program, rank, processes, store, **env) for rank in range(processes)]
    try:
        ends = {r: p.communicate(timeout=timeout) for r, p in enumerate(started) if r not in stuck}
    finally:
        for p in started:
            p.kill()
    ends.update({r: started[r].communicate() for r in stuck})
    return [Outcome(p.returncode, *ends[r]) for r, p in enumerate(started)]


def check(program: str, processes: int, **env: str) -> list[str]:
    """Run a program that must end well in all processes; returns what they printed."""
    ended = run(program, processes, **env)
    for rank, p in enumerate(ended):
        assert p.code == 0, f"process {rank}: exit {p.code}\n{p.out}\n{p.err}"
    return [p.out for p in ended]
