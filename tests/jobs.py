"""Runs the same program in several processes that form a job."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass

from torch.distributed import TCPStore


@dataclass
class Process:
    """How a process of a job ended."""

    code: int
    out: str
    err: str


def run(program: str, processes: int, timeout: float = 240, **env: str) -> list[Process]:
    """Run a program in processes that are told of each other as by torchrun; none may outlast the timeout."""
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    started = []
    try:
        for rank in range(processes):
            job = {
                **{"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": processes, "LOCAL_WORLD_SIZE": processes},
                **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": store.port},
                **{"TORCHELASTIC_USE_AGENT_STORE": True, "TORCHELASTIC_RESTART_COUNT": 0},
            }
            started.append(
                subprocess.Popen(
                    [sys.executable, "-c", program],
                    env={**os.environ, **{k: str(v) for k, v in job.items()}, **env},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        ends = [p.communicate(timeout=timeout) for p in started]
    finally:
        for p in started:
            p.kill()
    return [Process(p.returncode, *texts) for p, texts in zip(started, ends, strict=True)]


def check(program: str, processes: int, **env: str) -> list[str]:
    """Run a program that must end well in all processes; returns what they printed."""
    ended = run(program, processes, **env)
    for rank, p in enumerate(ended):
        assert p.code == 0, f"process {rank}: exit {p.code}\n{p.out}\n{p.err}"
    return [p.out for p in ended]
