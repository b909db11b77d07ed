"""Kills, stops and restarts processes of a job, while strangers send garbage to its store.

A round is a job of 2 or 3 processes that add up numbers together, step by step, and keep checkpoints. One of them is
killed or stopped in a step, or interrupted as the job starts; the others must end soon, with an error that names it,
and a start afterwards must go on where the checkpoints are. Strangers connect to the store and to the processes all the
time.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from torch.distributed import TCPStore

from . import Counts, main

TIMEOUT = 20  # seconds that a process waits for another one
SLACK = 60  # seconds that a process may take to start, and to end after a fault

# In the midst of a save it is gloo that tells, which names nobody.
TOLD = re.compile(r"told .*(process \d|onnection closed by peer|imed out|onnection reset)")

PROGRAM = """
import datetime, os, sys, time
import torch, torch_go_xla
import torch_go_xla.core.xla_model as xm
import torch_go_xla.runtime as xr
from torch_go_xla.experimental.distributed_checkpoint import CheckpointManager
import torch.distributed as dist

r, n = xr.global_ordinal(), xr.world_size()
print("opens", flush=True)
timeout = datetime.timedelta(seconds=int(os.environ["TIMEOUT"]))
dist.init_process_group("xla", init_method="xla://", timeout=timeout)
manager = CheckpointManager(os.environ["CHECKPOINT"], 1, max_to_keep=2, chkpt_on_preemption=False)
state = {"count": torch.zeros(int(os.environ["SIZE"])).to("xla")}
first = 0
if steps := manager.all_steps():
    manager.restore(max(steps), state)
    first = max(steps) + 1
try:
    for step in range(first, int(os.environ["STEPS"])):
        assert state["count"].unique().tolist() == [float(step)], state["count"]
        state["count"].add_(xm.all_reduce("sum", torch.ones_like(state["count"])) / n)
        manager.save(step, state)
        assert xm.rendezvous("step", str(step).encode()) == [str(step).encode()] * n
        print("step", step, flush=True)
except RuntimeError as e:
    print("told", str(e).replace("\\n", " "), flush=True)
    assert (torch.ones(2, device="xla") + 1).tolist() == [2, 2]
    sys.exit(3)
print("finished", flush=True)
"""


def listeners(pid: int) -> list[int]:
    """Return the TCP ports on which a process listens."""
    try:
        inodes = {os.readlink(f) for f in Path(f"/proc/{pid}/fd").iterdir()}
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    except OSError:
        return []
    return [int(row[1].split(":")[1], 16) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in inodes]


class Strangers:
    """Connects to the ports of processes and sends what a seed says, until it is closed."""

    def __init__(self, seed: int) -> None:
        self.pids: list[int] = []
        self.sent = 0
        self._random = random.Random(seed)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _text(self) -> bytes:
        r = self._random
        return r.choice(
            [
                b"",  # half open
                r.randbytes(r.randrange(1, 300)),
                b"GET / HTTP/1.0\r\n\r\n",
                struct.pack("<I", r.choice([0, 1, 1 << 31, (1 << 32) - 1])) + r.randbytes(64),
                r.randbytes(104),  # as long as a claim
                b"XLACPUT2" + r.randbytes(24) + struct.pack("<Q", 1 << 60) * 6,
                b"\x0c\xff\x81\x02\x01\x01\x07Request",  # the protocol of an earlier version
            ]
        )

    def _work(self) -> None:
        kept: list[socket.socket] = []
        while not self._over.wait(0.02):
            for port in [p for pid in list(self.pids) for p in listeners(pid)]:
                with contextlib.suppress(OSError):
                    s = socket.create_connection(("127.0.0.1", port), timeout=1)
                    kept.append(s)
                    s.sendall(self._text())
                    self.sent += 1
            while len(kept) > 300:
                kept.pop(0).close()
        for s in kept:
            s.close()

    def close(self) -> None:
        """Disconnect."""
        self._over.set()
        self._thread.join()


class Attempt:
    """One start of the job, and what its processes print."""

    def __init__(self, folder: Path, size: int, number: int, steps: int, elements: int, strangers: Strangers) -> None:
        self.folder, self.size = folder, size
        self._store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        self.logs = [folder / f"log-{number}-{rank}" for rank in range(size)]
        self.processes = [self._start(rank, steps, elements, number) for rank in range(size)]
        strangers.pids[:] = [p.pid for p in self.processes]

    def _start(self, rank: int, steps: int, elements: int, number: int) -> subprocess.Popen[bytes]:
        job = {
            **{"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": self.size, "LOCAL_WORLD_SIZE": self.size},
            **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": self._store.port, "TORCHELASTIC_USE_AGENT_STORE": True},
            **{"TORCHELASTIC_RESTART_COUNT": number, "TORCHELASTIC_RUN_ID": "torture"},
            **{"CHECKPOINT": self.folder / "checkpoint", "STEPS": steps, "SIZE": elements},
            "TIMEOUT": TIMEOUT,
        }
        with self.logs[rank].open("wb") as log:
            env = {**os.environ, **{k: str(v) for k, v in job.items()}}
            return subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=log, stderr=subprocess.STDOUT, env=env)

    def text(self, rank: int) -> str:
        """Return what a process has printed so far."""
        return self.logs[rank].read_text(errors="replace")

    def await_words(self, rank: int, words: str) -> bool:
        """Wait until a process has printed something; False if it ends before."""
        deadline = time.monotonic() + 2 * SLACK
        while time.monotonic() < deadline:
            if words in self.text(rank):
                return True
            if self.processes[rank].poll() is not None:
                return words in self.text(rank)
            time.sleep(0.02)
        return False

    def ends(self, ranks: list[int], seconds: float) -> str:
        """Wait for the end of processes; say which one has not ended."""
        deadline = time.monotonic() + seconds
        for rank in ranks:
            try:
                self.processes[rank].wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                return f"process {rank} runs {seconds} s after the fault: {self.text(rank)[-500:]}"
        return ""

    def kill(self) -> None:
        """End what is left."""
        for p in self.processes:
            p.kill()
            p.wait()


def hurt(job: Attempt, fault: str, victim: int, moment: int, pause: float) -> str:
    """Inject a fault into a running job; return the harm that it did."""
    others = [r for r in range(job.size) if r != victim]
    process = job.processes[victim]
    if fault == "interrupt":
        if not job.await_words(victim, "opens"):
            return f"process {victim} does not start: {job.text(victim)[-500:]}"
        time.sleep(pause)
        process.send_signal(signal.SIGINT)
        if harm := job.ends([victim], SLACK):
            return harm
    else:
        if not job.await_words(victim, f"step {moment}"):
            return f"process {victim} does not come to step {moment}: {job.text(victim)[-800:]}"
        time.sleep(pause)
        process.send_signal(signal.SIGSTOP if fault == "stop" else signal.SIGKILL)
    if harm := job.ends(others, TIMEOUT + SLACK):
        return harm
    for r in others:
        code, text = job.processes[r].returncode, job.text(r)
        if code < 0 or "Segmentation" in text or "panic" in text:
            return f"process {r} ends with {code}: {text[-800:]}"
        if fault != "interrupt" and (
            code != 3 or not re.search(r"told .*(process \d|Connection|onnection closed)", text)
        ):
            return f"process {r} is not told: exit status {code}: {text[-800:]}"
    return ""


def run(seed: int, seconds: float) -> Counts:
    """Attack jobs, one after the other."""
    counts, chance = Counts(), random.Random(seed)
    strangers = Strangers(seed)
    over = time.monotonic() + seconds
    try:
        while not counts.tries or time.monotonic() < over:
            counts.tries += 1
            one_round(counts, chance, strangers, f"seed {seed} round {counts.tries}")
    finally:
        strangers.close()
    print(f"{strangers.sent} connections of strangers")
    return counts


def one_round(counts: Counts, chance: random.Random, strangers: Strangers, name: str) -> None:
    """Hurt a job several times, let it go on after each, and check what it has counted."""
    folder = Path(tempfile.mkdtemp(prefix="torture-jobs-"))
    elements, done = chance.choice([16, 1 << 22]), 0
    try:
        for number in range(3):
            size, last = chance.choice([2, 3]), number == 2
            fault, victim = chance.choice(["kill", "stop", "interrupt"]), chance.randrange(size)
            moment, pause = done + chance.randrange(3), chance.random() ** 2 * (3 if fault == "interrupt" else 0.3)
            job = Attempt(folder, size, number, moment + (1 if last else 1000), elements, strangers)
            try:
                if last:
                    harm = job.ends(list(range(size)), 3 * SLACK)
                    bad = [r for r in range(size) if "finished" not in job.text(r)]
                    harm = harm or "".join(f"process {r} does not finish: {job.text(r)[-800:]}" for r in bad)
                    fault = "restart"
                else:
                    harm = hurt(job, fault, victim, moment, pause)
                steps = [int(s) for r in range(size) for s in re.findall(r"^step (\d+)", job.text(r), re.MULTILINE)]
                done = max([done, *(s + 1 for s in steps)])
            finally:
                job.kill()
            counts.judge(harm and f"{name}: {fault} of process {victim} of {size} in start {number}: {harm}")
            if harm:
                return
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(run)
