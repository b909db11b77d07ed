"""Ends processes with work in flight: daemon threads that compile, sync, save or fetch, handlers of atexit that save.

A process has to end with the status that its program asks for, never by a signal, within two minutes. What a handler
of atexit saves has to be there. The processes are forked by one that has imported torch, but not this package.
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import queue
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from . import Counts, main

LIMIT = 120.0  # seconds for a process, most of them for the import and for compilers

SETUP = """
import atexit, os, sys, threading, time
saved = {saved!r}
def save():
    torch_go_xla.core.xla_model.save({{"x": torch.arange(4.0, device="xla") + {number}}}, saved)
import torch
{before}
import torch_go_xla, torch_go_xla.core.xla_model
{after}
x = torch.ones(64, 64, device="xla")
def repeat(f):
    def forever():
        k = 0
        while True:
            k += 1
            f(k)
    threading.Thread(target=forever, daemon=True).start()
"""

# What daemon threads do again and again. k counts, so that each round is a program of its own where it shapes it.
THREADS = {
    "compiles": "lambda k: (torch.cat([(x @ x).sin()] * (k % 50 + 1)).cumsum(0)[:k], torch_go_xla.sync())",
    "syncs": "lambda k: (x + k, torch_go_xla.sync())",
    "waits": "lambda k: (x @ x, torch_go_xla.sync(wait=True))",
    "saves": "lambda k: torch_go_xla.core.xla_model.save([x + k], saved + '.other')",
    "fetches": "lambda k: (x + k).sum().item()",
    "records": "lambda k: x.add(k).relu().t()[1:].exp_()",
    "uploads": "lambda k: torch.ones(8, k % 9).to('xla').add_(1).cpu()",
    "asks for sizes": "lambda k: torch.nonzero(x[: k % 5])",
    "falls back": "lambda k: torch.linalg.eigvals(torch.eye(3, device='xla') * k).abs()",
    "trains": "lambda k: (torch.nn.Linear(64, 2).to('xla')(x).sum().backward(), torch_go_xla.sync())",
    "replays": "torch_go_xla.compile(lambda k: torch.add(x, 1).sum())",
    "computes on the CPU": "lambda k: torch.ones(64, 64).matmul(torch.ones(64, 64)).sin()",
}

FLIGHT = {
    "nothing": "",
    "recorded ops": "y = x + 1",
    "a compiling program": "y = x\nfor i in range(20):\n    y = (y.sort(i % 2).values @ x).sin()\ntorch_go_xla.sync()",
    "a running program": "y = x\nfor i in range(9):\n    y = (y @ x).tanh()\ntorch_go_xla.sync()",
    "a queue": "for i in range(30):\n    x = x * 1.01 + i\n    torch_go_xla.sync()",
    "borrowed memory": "out = torch.from_dlpack(x)",
}

ENDS = {
    "of the main thread": ("", 0),
    "sys.exit(3)": ("sys.exit(3)", 3),
    "sys.exit(text)": ("sys.exit('text')", 1),
    "an exception": ("raise ValueError('on purpose')", 1),
    "SystemExit in a function": ("def f(n):\n    f(n - 1) if n else exit(4)\nf(9)", 4),
}

DEVICES = ({}, {}, {"CPU_NUM_DEVICES": "2"}, {"CPU_NUM_DEVICES": "2", "XLA_USE_SPMD": "1"})


@dataclass
class Program:
    """A program, and what is asked of its end."""

    about: str
    text: str
    status: int
    devices: dict[str, str]
    path: Path | None  # of what it saves as it ends


def program(rng: random.Random, folder: Path, number: int) -> Program:
    """Make a program."""
    before, after = rng.choice(((0, 0), (0, 1), (1, 0), (1, 1)))
    path = folder / f"{number}.pt"
    register = "atexit.register(save)"
    text = SETUP.format(
        **{"saved": str(path), "number": number, "before": before and register or "", "after": after and register or ""}
    )
    threads = rng.sample(sorted(THREADS), rng.randrange(4))
    flight, end = rng.choice(sorted(FLIGHT)), rng.choice(sorted(ENDS))
    devices = rng.choice(DEVICES)
    pause = rng.choice((0, rng.random() / 2))
    lines = [*(f"repeat({THREADS[t]})" for t in threads), FLIGHT[flight], f"time.sleep({pause})", ENDS[end][0]]
    about = f"{flight}, threads: {threads}, handlers: {before + after}, after {pause:.3f} s: {end}, {devices}"
    text += "\n".join(lines)
    return Program(about, text, ENDS[end][1], devices, path if before or after else None)


class Forks:
    """A process that forks others."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(Path(__file__).with_name("programs") / "ends.py")],
            **{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1},
        )

    def run(self, one: Program) -> tuple[int | None, str]:
        """Run a program in a fork; return its exit status, None if it does not end, and what it prints."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps([one.text, one.devices, str(self._log)]), file=self._process.stdin)
        pid = int(self._process.stdout.readline())
        ended = threading.Event()
        late: list[int] = []

        def bound() -> None:
            if not ended.wait(LIMIT):
                late.append(pid)
                os.kill(pid, signal.SIGKILL)

        threading.Thread(target=bound, daemon=True).start()
        status = int(self._process.stdout.readline())
        ended.set()
        return None if late else status, self._log.read_text(errors="replace")

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


def harm(one: Program, number: int, forks: Forks) -> str:
    """Run a program; return what is wrong with its end, "" if nothing is."""
    status, text = forks.run(one)
    if status is None:
        return f"did not end in {LIMIT:.0f} s: {text[-2000:]}"
    if status != one.status:
        return f"exit status {status}, not {one.status}: {text[-2000:]}"
    if one.path is None:
        return ""
    if not one.path.exists():
        return f"the handler of atexit saved nothing: {text[-2000:]}"
    x = torch.load(one.path)["x"]
    one.path.unlink()
    return "" if torch.equal(x.cpu(), torch.arange(4.0) + number) else f"the handler of atexit saved {x}"


def run(seed: int, seconds: float, most: int) -> Counts:
    """End processes until the time is over."""
    rng = random.Random(seed)
    counts = Counts()
    end = time.monotonic() + seconds
    workers = min(os.cpu_count() or 1, most)
    with (
        tempfile.TemporaryDirectory(prefix="torture-") as folder,
        concurrent.futures.ThreadPoolExecutor(workers) as pool,
    ):
        free: queue.SimpleQueue[Forks] = queue.SimpleQueue()
        for i in range(workers):
            free.put(Forks(Path(folder) / f"log-{i}"))

        def trial(number: int, one: Program) -> tuple[str, str]:
            forks = free.get()
            try:
                found = harm(one, number, forks)
            finally:
                free.put(forks)
            return found and f"seed {seed}, process {number}, {one.about}: {found}", one.about.partition(",")[0]

        running: set[concurrent.futures.Future[tuple[str, str]]] = set()
        while running or (counts.tries < most and (time.monotonic() < end or not counts.tries)):
            while len(running) < workers and counts.tries < most and (time.monotonic() < end or not counts.tries):
                running.add(pool.submit(trial, counts.tries, program(rng, Path(folder), counts.tries)))
                counts.tries += 1
            done, running = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in done:
                counts.judge(*future.result())
        for _ in range(workers):
            free.get().close()
    return counts


if __name__ == "__main__":
    main(run)
