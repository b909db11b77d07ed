"""Jobs whose processes start again, stop, are interrupted as they start, or meet strangers."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

import jobs
import pytest
from programs import RAISES

pytestmark = pytest.mark.slow

START = (
    RAISES
    + """
import os, signal, sys, time
import torch, torch_go_xla
import torch_go_xla.core.xla_model as xm
import torch_go_xla.runtime as xr

r, n = xr.global_ordinal(), xr.world_size()
"""
)

# Each attempt adds one to a count that the processes keep together, and but for the last one dies.
RESUME = (
    START
    + """
from torch_go_xla.experimental.distributed_checkpoint import CheckpointManager
import torch.distributed as dist

dist.init_process_group("xla", init_method="xla://")
attempt, attempts = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), int(os.environ["ATTEMPTS"])
manager = CheckpointManager(os.environ["CHECKPOINT"], 1, max_to_keep=2, chkpt_on_preemption=False)
state = {"count": torch.zeros(4).to("xla")}
if steps := manager.all_steps():
    assert max(steps) == attempt - 1, (steps, attempt)
    manager.restore(max(steps), state)
assert state["count"].tolist() == [float(n * attempt)] * 4
state["count"].add_(xm.all_reduce("sum", torch.ones(4, device="xla")))
manager.save(attempt, state)
xm.rendezvous("saved")
if attempt < attempts:
    os.kill(os.getpid(), signal.SIGKILL) if r == attempt % n else time.sleep(600)
print("count", state["count"].tolist()[0], flush=True)
"""
)


def check_restarts(folder: pathlib.Path, restarts: int) -> None:
    """Have torchrun start a job again and again."""
    program = folder / "program.py"
    program.write_text(RESUME)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += [f"--max-restarts={restarts}", "--monitor-interval=0.1", str(program)]
    env = {**os.environ, "CHECKPOINT": str(folder / "checkpoint"), "ATTEMPTS": str(restarts)}
    pipe = subprocess.PIPE
    agent = subprocess.Popen(command, env=env, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
    try:
        out, err = agent.communicate(timeout=120 + 60 * restarts)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(agent.pid, signal.SIGKILL)  # and the processes that it has started
    assert agent.returncode == 0, out + err
    assert out.count(f"count {2.0 * (restarts + 1)}") == 2, out


def test_a_job_is_started_again(tmp_path: pathlib.Path) -> None:
    check_restarts(tmp_path, 3)


MEMBER = START + 'assert xm.all_reduce("sum", torch.ones(2, device="xla")).tolist() == [n, n]\n'


def test_a_job_of_another_size_meets_by_the_same_store() -> None:
    """An elastic agent does not count a change of the size as a restart: what the last job left is there."""
    store = jobs.agent()
    for size in (2, 3, 2, 2):
        for rank, p in enumerate(jobs.run(MEMBER, size, store=store)):
            assert p.code == 0, f"process {rank} of {size}: {p.out}{p.err}"


STOPS = (
    START
    + """
def told(words, f):
    try:
        f()
    except RuntimeError as e:
        assert f"process {stops}" in str(e) and words in str(e), e
    else:
        raise AssertionError("no error")

def alone():
    assert (torch.ones(2, device="xla") + 1).tolist() == [2, 2]

stops, size = int(os.environ["STOPS"]), int(os.environ["SIZE"])
t = torch.ones(size, device="xla")
for _ in range(2):
    assert xm.all_reduce("sum", t).sum().item() == n * size
if r == stops:
    os.kill(os.getpid(), signal.SIGSTOP)
began = time.monotonic()
"""
)


@pytest.mark.parametrize(("stops", "size"), [(1, 4), (0, 4), (1, 1 << 24)])
def test_a_process_that_stops_is_named(stops: int, size: int) -> None:
    """Whether it serves the store or not, and if the others are in the midst of sending to it."""
    ended = jobs.run(
        STOPS
        + """
told("", lambda: [xm.all_reduce("sum", t).sum().item() for _ in range(3)])
told("", lambda: xm.all_reduce("sum", t).tolist())
told("", lambda: xm.rendezvous("after"))
alone()
print("told", time.monotonic() - began, flush=True)
""",
        3,
        stuck=[stops],
        STOPS=str(stops),
        SIZE=str(size),
        TORCH_GO_XLA_JOB_TIMEOUT="5",
    )
    for rank, p in enumerate(ended):
        assert rank == stops or (p.code == 0 and p.out.startswith("told")), f"process {rank}: {p.code} {p.out}{p.err}"


def test_torchs_timeout_bounds_a_rendezvous() -> None:
    ended = jobs.run(
        START.replace(
            "\nr, n",
            '\nimport datetime\ntorch.distributed.init_process_group("xla", init_method="xla://",'
            " timeout=datetime.timedelta(seconds=5))\nr, n",
        )
        + STOPS.removeprefix(START)
        + 'told("", lambda: xm.rendezvous("after"))\nalone()\nprint("told", flush=True)\nos._exit(0)\n',
        2,
        stuck=[1],
        STOPS="1",
        SIZE="4",
    )
    assert (ended[0].code, ended[0].out) == (0, "told\n"), ended[0].err


def test_a_process_that_does_not_come_is_named() -> None:
    """It lives, and its device does, but it is busy with something else."""
    ended = jobs.run(
        STOPS.replace("os.kill(os.getpid(), signal.SIGSTOP)", "time.sleep(600)")
        + """
told("has not come within 3s to number 3 of the exchanges of xla:0 among processes 0 1",
     lambda: xm.all_reduce("sum", t).tolist())
told("", lambda: xm.all_reduce("sum", t).tolist())
alone()
print("told", flush=True)
""",
        2,
        stuck=[1],
        STOPS="1",
        SIZE="4",
        TORCH_GO_XLA_JOB_TIMEOUT="3",
    )
    assert (ended[0].code, ended[0].out) == (0, "told\n"), ended[0].err


OPENS = """
import signal, sys, time
import torch, torch_go_xla
signal.signal(signal.SIGINT, signal.default_int_handler)
print("ready", flush=True)
torch.ones(1, device="xla")
"""


def interrupted(p: subprocess.Popen[str]) -> float:
    """Interrupt a process that waits; return after how many seconds it has ended by KeyboardInterrupt."""
    assert p.stdout is not None and p.stdout.readline() == "ready\n"
    time.sleep(2)
    assert p.poll() is None
    began = time.monotonic()
    p.send_signal(signal.SIGINT)
    try:
        _, err = p.communicate(timeout=30)
    finally:
        p.kill()
    assert "KeyboardInterrupt" in err and p.returncode in (1, 130, -signal.SIGINT), (p.returncode, err)
    return time.monotonic() - began


def test_interrupts_while_torchs_store_is_not_there() -> None:
    store = jobs.agent()
    interrupted(jobs.start(OPENS, 1, 2, store, MASTER_PORT="1"))


@pytest.mark.parametrize("rank", [0, 1])
def test_interrupts_while_others_do_not_come(rank: int) -> None:
    """Process 0 waits for process 1 in its own store, process 1 for the address of that."""
    store = jobs.agent()
    interrupted(jobs.start(OPENS, rank, 2, store))


def test_interrupts_while_the_store_is_gone() -> None:
    """What torch's store says is left over from a job that has ended."""
    store = jobs.agent()
    first = jobs.start(OPENS, 0, 2, store)
    interrupted(first)
    interrupted(jobs.start(OPENS, 1, 2, store))


HOSTILE = (
    START
    + """
import io, pickle

class Evil:
    def __reduce__(self):
        return os.mkdir, (os.environ["MARK"],)

file = io.BytesIO()
torch.save([Evil()], file)
for text in (file.getvalue(), pickle.dumps(Evil()), b""):
    if r == 1:
        xm.rendezvous("evil", text)
    else:
        try:
            xm.mesh_reduce("evil", 1, lambda all: all)
        except (pickle.UnpicklingError, RuntimeError, EOFError):
            pass
        else:
            raise AssertionError("no error")
assert not os.path.exists(os.environ["MARK"])
raises(TypeError, "mesh_reduce('object') takes tensors", xm.mesh_reduce, "object", Evil(), sum)

import collections
import numpy as np
given = {
    "t": torch.arange(3.0).to("xla") + r, "b": torch.ones(2, dtype=torch.bfloat16),
    "l": [r, 0.5, True, None, "s", b"b", 2j],
    "n": np.float64(r), "i": np.int32(7), "a": np.arange(6).reshape(2, 3) + r, "f": np.ones(2, np.float16),
    "o": collections.OrderedDict(a=(1, {2}))}
for i, got in enumerate(xm.mesh_reduce("kinds", given, lambda all: all)):
    assert got["t"].device.type == "cpu" and got["t"].tolist() == [i, 1 + i, 2 + i] and got["b"].tolist() == [1, 1]
    assert got["l"] == [i, 0.5, True, None, "s", b"b", 2j] and got["o"] == given["o"]
    assert type(got["n"]) is np.float64 and got["n"] == i and type(got["i"]) is np.int32 and got["i"] == 7
    assert (got["a"] == np.arange(6).reshape(2, 3) + i).all() and got["f"].dtype == np.float16
assert xm.mesh_reduce("mean", np.float64(r), np.mean) == 0.5
"""
)


def test_what_others_give_runs_no_code(tmp_path: pathlib.Path) -> None:
    jobs.check(HOSTILE, 2, MARK=str(tmp_path / "mark"))


def test_the_secret_is_in_a_private_file_while_the_job_starts() -> None:
    """Torch's store, which anybody may read, has its path; a file that others could have written is refused."""
    store = jobs.agent()
    first = jobs.start(MEMBER, 0, 2, store, TORCHELASTIC_RUN_ID="run")
    try:
        key = "torch_go_xla/run/0/2/store"
        store.wait([key])
        offer = store.get(key).decode()
        path = pathlib.Path(offer.partition('"file": "')[2].partition('"')[0])
        status = path.stat()
        assert (status.st_mode & 0o777, status.st_uid) == (0o600, os.geteuid())
        assert path.read_text() not in offer and len(path.read_text()) == 64
        second = jobs.start(MEMBER, 1, 2, store, TORCHELASTIC_RUN_ID="run")
        assert [p.wait(120) for p in (first, second)] == [0, 0]
        assert not path.exists()
    finally:
        first.kill()
