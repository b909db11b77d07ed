"""Kills, stops, interrupts and restarts processes of a job, while strangers attack its store.

A round is a job of 2 or 3 processes that add up numbers together, step by step, and keep checkpoints. One of them is
killed or stopped in a step, or interrupted as the job starts; the others must end soon, with an error that names it,
and a start afterwards must go on where the checkpoints are. Then torchrun starts a job again and again, whose processes
kill themselves in turn, and goes on with another number of processes.

Strangers connect to the store and to the processes all the time. They send garbage, what real connections have sent
before, a byte at a time, nothing, or as much as is taken.
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

PROGRAM = Path(__file__).with_name("programs") / "member.py"
TIMEOUT = 20  # seconds that a process waits for another one
SLACK = 60  # seconds that a process may take to start, and to end after a fault
LATE = 10.0  # seconds that KeyboardInterrupt may take, of which a loaded machine takes most

# In the midst of a save it is gloo that tells, which names no one.
TOLD = re.compile(r"told .*(process(es)? \d|onnection closed by peer|imed out|onnection reset)")


def listeners(log: Path) -> list[int]:
    """Return the TCP ports on which a process says that it listens."""
    text = log.read_text(errors="replace") if log.exists() else ""
    return [int(port) for line in re.findall(r"^ports (.*)$", text, re.MULTILINE) for port in line.split()]


class Recorder:
    """Keeps what has been sent to ports of this machine, where the system lets it (root only)."""

    def __init__(self) -> None:
        self.sent: dict[tuple[int, int], bytes] = {}  # by the ports of both ends
        self._socket: socket.socket | None = None
        with contextlib.suppress(OSError):
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
            self._socket.bind(("lo", 0))
            self._socket.setblocking(False)

    def read(self, ports: set[int]) -> None:
        """Keep what has come to some ports since the last call: at most 64 KiB a connection, of 200 of them."""
        packets = 2000 if self._socket is not None else 0  # so that it ends on a machine with much traffic
        with contextlib.suppress(OSError):
            for _ in range(packets):
                packet = self._socket.recv(1 << 16)
                at = 14 + 4 * (packet[14] & 15)  # behind Ethernet's and IP's headers
                if packet[23] != socket.IPPROTO_TCP:
                    continue
                key = struct.unpack(">HH", packet[at : at + 4])
                data = packet[at + 4 * (packet[at + 12] >> 4) :]
                before = self.sent.get(key, b"")
                if data and key[1] in ports and len(before) < 1 << 16 and (before or len(self.sent) < 200):
                    self.sent[key] = before + data

    def close(self) -> None:
        """Stop."""
        if self._socket is not None:
            self._socket.close()


class Strangers:
    """Connects to the ports of processes and sends what a seed says, until it is closed."""

    def __init__(self, seed: int) -> None:
        self.logs: list[Path] = []
        self.sent: dict[str, int] = {}
        self._random = random.Random(seed)
        self._recorder = Recorder()
        self._own: set[int] = set()  # ports of its own connections, which are not worth a replay
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _text(self, port: int) -> tuple[str, bytes]:
        r = self._random
        kind = r.choice(["nothing", "garbage", "garbage", "lengths", "replay", "replay", "slow", "flood"])
        recorded = [data for (source, to), data in self._recorder.sent.items() if source not in self._own]
        if kind == "replay" and recorded:
            data = bytearray(r.choice(recorded))
            for _ in range(r.choice([0, 0, 1, 3])):
                data[r.randrange(len(data))] ^= 1 << r.randrange(8)
            return kind, bytes(data)
        if kind == "flood":
            return kind, r.randbytes(1 << 16) * 16
        if kind == "lengths":
            head = struct.pack("<I", r.choice([0, 1, 1 << 31, (1 << 32) - 1]))
            return kind, r.choice(
                [head + r.randbytes(64), b"XLACPUT2" + r.randbytes(24) + struct.pack("<Q", 1 << 60) * 6]
            )
        if kind == "nothing":
            return kind, b""
        return "garbage" if kind == "replay" else kind, r.choice(
            [r.randbytes(r.randrange(1, 300)), b"GET / HTTP/1.0\r\n\r\n"]
        )

    def _work(self) -> None:
        kept: list[socket.socket] = []
        slow: list[tuple[socket.socket, bytes]] = []
        while not self._over.wait(0.02):
            ports = {port for log in list(self.logs) for port in listeners(log)}
            self._recorder.read(ports)
            slow = [(s, data[1:]) for s, data in slow if data and _tried(s, data[:1])]
            for port in sorted(ports):
                with contextlib.suppress(OSError):
                    s = socket.create_connection(("127.0.0.1", port), timeout=0.2)
                    self._own.add(s.getsockname()[1])
                    kept.append(s)
                    kind, text = self._text(port)
                    self.sent[kind] = self.sent.get(kind, 0) + 1
                    if kind == "slow":
                        slow.append((s, text))
                    else:
                        s.sendall(text)
            while len(kept) > 300:
                kept.pop(0).close()
        for s in kept:
            s.close()
        self._recorder.close()

    def close(self) -> None:
        """Disconnect."""
        self._over.set()
        self._thread.join()


def _tried(s: socket.socket, data: bytes) -> bool:
    """Send, if the other end still takes it."""
    try:
        s.sendall(data)
    except OSError:
        return False
    return True


class Attempt:
    """One start of the job, and what its processes print."""

    def __init__(self, folder: Path, size: int, number: int, steps: int, elements: int, strangers: Strangers) -> None:
        self.folder, self.size = folder, size
        self._store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        self.logs = [folder / f"log-{number}-{rank}" for rank in range(size)]
        self.processes = [self._start(rank, steps, elements, number) for rank in range(size)]
        strangers.logs[:] = self.logs

    def _start(self, rank: int, steps: int, elements: int, number: int) -> subprocess.Popen[bytes]:
        job = {
            **{"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": self.size, "LOCAL_WORLD_SIZE": self.size},
            **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": self._store.port, "TORCHELASTIC_USE_AGENT_STORE": True},
            **{"TORCHELASTIC_RESTART_COUNT": number, "TORCHELASTIC_RUN_ID": "torture"},
            **{"CHECKPOINT": self.folder / "checkpoint", "STEPS": steps, "SIZE": elements},
            **{"TIMEOUT": TIMEOUT, "TORCH_GO_XLA_JOB_TIMEOUT": SLACK},  # the latter as it starts
        }
        with self.logs[rank].open("wb") as log:
            env = {**os.environ, **{k: str(v) for k, v in job.items()}}
            return subprocess.Popen([sys.executable, PROGRAM], stdout=log, stderr=subprocess.STDOUT, env=env)

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
                text = self.text(rank)
                return f"process {rank} runs {seconds} s after the fault: {text[:1000]} ... {text[-300:]}"
        return ""

    def kill(self) -> None:
        """End what is left."""
        for p in self.processes:
            p.kill()
            p.wait()


def hurt(job: Attempt, fault: str, victim: int, moment: int, pause: float) -> tuple[str, float]:
    """Inject a fault into a running job; return the harm that it did, and after how many seconds it was honoured."""
    took = 0.0
    others = [r for r in range(job.size) if r != victim]
    process = job.processes[victim]
    if fault == "interrupt":
        if not job.await_words(victim, "opens"):
            return f"process {victim} does not start: {job.text(victim)[-500:]}", 0
        time.sleep(pause)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        if job.ends([victim], LATE) and "Exception ignored" in job.text(victim):
            began = time.monotonic()  # Python drops what a finalizer raises: whoever interrupts does so again
            process.send_signal(signal.SIGINT)
        if harm := job.ends([victim], SLACK):
            return harm, SLACK
        if found := re.search(r"^interrupted ([\d.]+)$", job.text(victim), re.MULTILINE):
            took = float(found[1]) - began
        if took > LATE:
            return f"the interrupt came after {took:.1f} s", took
    else:
        if not job.await_words(victim, f"step {moment}"):
            return f"process {victim} does not come to step {moment}: {job.text(victim)[-800:]}", 0
        time.sleep(pause)
        process.send_signal(signal.SIGSTOP if fault == "stop" else signal.SIGKILL)
    began = time.monotonic()
    if harm := job.ends(others, TIMEOUT + SLACK):
        return harm, TIMEOUT + SLACK
    took = took or time.monotonic() - began
    for r in others:
        code, text = job.processes[r].returncode, job.text(r)
        if code < 0 or "Segmentation" in text or "panic" in text:
            return f"process {r} ends with {code}: {text[-800:]}", took
        if fault != "interrupt" and (code != 3 or not TOLD.search(text)):
            return f"process {r} is not told: exit status {code}: {text[-800:]}", took
    return "", took


def restarts(counts: Counts, strangers: Strangers, sizes: list[int], deaths: int, name: str) -> None:
    """Have torchrun start a job again after each of its deaths, then go on with another number of processes."""
    folder = Path(tempfile.mkdtemp(prefix="torture-jobs-"))
    try:
        for size in sizes:
            counts.tries += 1
            command = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone"]
            command += [f"--nproc-per-node={size}", f"--max-restarts={deaths}", "--monitor-interval=0.1"]
            env = {
                "CHECKPOINT": folder / "checkpoint",
                "STEPS": 1 << 30,
                "SIZE": 16,
                "TIMEOUT": TIMEOUT,
                "DEATHS": deaths,
            }
            agent = subprocess.Popen(
                [*command, str(PROGRAM)],
                env={**os.environ, **{k: str(v) for k, v in env.items()}},
                **{"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "start_new_session": True},
            )
            try:
                out, _ = agent.communicate(timeout=2 * SLACK + SLACK * deaths)
            except subprocess.TimeoutExpired:
                out = "did not end"
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(agent.pid, signal.SIGKILL)
            ended = sorted({int(k) for k in re.findall(r"attempt (\d+) ends", out)})
            whole = agent.returncode == 0 and ended == list(range(deaths)) and out.count("finished") == size
            for k in range(deaths):
                counts.judge(
                    "" if whole else f"{name}: restart {k} of {size} processes: {out[-1500:]}", "torchrun restart"
                )
            if not whole:
                return
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(seed: int, seconds: float, most: int) -> Counts:
    """Attack jobs, one after the other; a third of the time is torchrun's, for 20 restarts if it suffices."""
    counts, chance = Counts(), random.Random(seed)
    strangers = Strangers(seed)
    began = time.monotonic()
    over = began + seconds
    try:
        while not counts.tries or (time.monotonic() < over - seconds / 3 and counts.tries < most):
            counts.tries += 1
            one_round(counts, chance, strangers, f"seed {seed} round {counts.tries}")
        start = (time.monotonic() - began) / (3 * counts.tries)  # seconds that one of a job takes, with its fault
        deaths = max(1, min(10, int(seconds / 3 / start)))
        if counts.tries < most:
            restarts(counts, strangers, chance.choice([[2, 3], [3, 2]]), deaths, f"seed {seed}")
    finally:
        strangers.close()
    counts.kinds |= {f"stranger: {kind}": n for kind, n in sorted(strangers.sent.items())}
    return counts


def one_round(counts: Counts, chance: random.Random, strangers: Strangers, name: str) -> None:
    """Hurt a job several times, let it go on after each, and check what it has counted."""
    folder = Path(tempfile.mkdtemp(prefix="torture-jobs-"))
    elements, done = chance.choice([16, 1 << 22]), 0
    try:
        for number in range(3):
            size, last = chance.choice([2, 3]), number == 2
            fault, victim = chance.choice(["kill", "stop", "interrupt", "interrupt"]), chance.randrange(size)
            took: float | None = None
            moment, pause = done + chance.randrange(3), chance.random() ** 2 * (3 if fault == "interrupt" else 0.3)
            job = Attempt(folder, size, number, moment + (1 if last else 1000), elements, strangers)
            try:
                if last:
                    harm = job.ends(list(range(size)), 3 * SLACK)
                    bad = [r for r in range(size) if "finished" not in job.text(r)]
                    harm = harm or "".join(f"process {r} does not finish: {job.text(r)[-800:]}" for r in bad)
                    fault = "restart"
                else:
                    harm, took = hurt(job, fault, victim, moment, pause)
                steps = [int(s) for r in range(size) for s in re.findall(r"^step (\d+)", job.text(r), re.MULTILINE)]
                done = max([done, *(s + 1 for s in steps)])
            finally:
                job.kill()
            harm = harm and f"{name}: {fault} of process {victim} of {size} in start {number}: {harm}"
            counts.judge(harm, fault, took)
            if harm:
                return
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(run)
