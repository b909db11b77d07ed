"""Ends processes with work in flight: daemon threads that compile, sync, save or fetch, handlers of atexit that save.

A process has to end with the status that its program asks for, never by a signal, within two minutes. What a handler
of atexit saves has to be there.
"""

from __future__ import annotations

import concurrent.futures
import os
import random
import subprocess
import sys
import tempfile
import time
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


def program(rng: random.Random, folder: Path, number: int) -> tuple[str, str, int, dict[str, str], Path | None]:
    """Make a program; return a line about it, its text, its exit status, its environment and the file that it saves."""
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
    return about, text + "\n".join(lines), ENDS[end][1], devices, path if before or after else None


def harm(text: str, status: int, devices: dict[str, str], path: Path | None, number: int) -> str:
    """Run a program; return what is wrong with its end, "" if nothing is."""
    env = {**os.environ, **devices}
    try:
        done = subprocess.run([sys.executable, "-c", text], env=env, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return f"did not end in {LIMIT:.0f} s"
    if done.returncode != status:
        return f"exit status {done.returncode}, not {status}: {done.stderr[-2000:]}"
    if path is None:
        return ""
    if not path.exists():
        return f"the handler of atexit saved nothing: {done.stderr[-2000:]}"
    x = torch.load(path)["x"]
    path.unlink()
    return "" if torch.equal(x.cpu(), torch.arange(4.0) + number) else f"the handler of atexit saved {x}"


def run(seed: int, seconds: float) -> Counts:
    """End processes until the time is over."""
    rng = random.Random(seed)
    counts = Counts()
    end = time.monotonic() + seconds
    workers = 2 * (os.cpu_count() or 1)
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(workers) as pool:

        def trial(number: int, made: tuple[str, str, int, dict[str, str], Path | None]) -> str:
            about, *rest = made
            found = harm(*rest, number)
            return found and f"seed {seed}, process {number}, {about}: {found}"

        running: set[concurrent.futures.Future[str]] = set()
        while running or time.monotonic() < end:
            while len(running) < workers and time.monotonic() < end:
                running.add(pool.submit(trial, counts.tries, program(rng, Path(folder), counts.tries)))
                counts.tries += 1
            done, running = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in done:
                counts.judge(future.result())
    return counts


if __name__ == "__main__":
    main(run)
