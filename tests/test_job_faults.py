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
import processes
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("processes")]


def check_restarts(folder: pathlib.Path, restarts: int) -> None:
    """Have torchrun start a job again and again."""
    program = processes.PROGRAMS / "jobs/resume.py"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += [f"--max-restarts={restarts}", "--monitor-interval=0.1", str(program)]
    env = {**processes.environment(), "CHECKPOINT": str(folder / "checkpoint"), "ATTEMPTS": str(restarts)}
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
    check_restarts(tmp_path, int(os.environ.get("RESTARTS", "3")))


def test_a_job_of_another_size_meets_by_the_same_store() -> None:
    """An elastic agent does not count a change of the size as a restart: what the last job left is there."""
    store = jobs.agent()
    for size in (2, 3, 2, 2):
        for rank, p in enumerate(jobs.run("jobs/member.py", size, store=store)):
            assert p.code == 0, f"process {rank} of {size}: {p.out}{p.err}"


@pytest.mark.parametrize(("stops", "size"), [(1, 4), (0, 4), (1, 1 << 24)])
def test_a_process_that_stops_is_named(stops: int, size: int) -> None:
    """Whether it serves the store or not, and if the others are in the midst of sending to it."""
    ended = jobs.run(
        "jobs/a_process_that_stops_is_named.py",
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
        "jobs/rendezvous_times_out.py",
        2,
        stuck=[1],
        STOPS="1",
        SIZE="4",
    )
    assert (ended[0].code, ended[0].out) == (0, "told\n"), ended[0].err


def test_a_process_that_does_not_come_is_named() -> None:
    """It lives, and its device does, but it is busy with something else."""
    ended = jobs.run(
        "jobs/a_process_that_does_not_come.py",
        2,
        stuck=[1],
        STOPS="1",
        SIZE="4",
        TORCH_GO_XLA_JOB_TIMEOUT="10",
    )
    assert (ended[0].code, ended[0].out) == (0, "told\n"), ended[0].err


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
    interrupted(jobs.start("jobs/opens.py", 1, 2, store, MASTER_PORT="1"))


@pytest.mark.parametrize("rank", [0, 1])
def test_interrupts_while_others_do_not_come(rank: int) -> None:
    """Process 0 waits for process 1 in its own store, process 1 for the address of that."""
    store = jobs.agent()
    interrupted(jobs.start("jobs/opens.py", rank, 2, store))


def test_interrupts_while_the_store_is_gone() -> None:
    """What torch's store says is left over from a job that has ended."""
    store = jobs.agent()
    first = jobs.start("jobs/opens.py", 0, 2, store)
    interrupted(first)
    interrupted(jobs.start("jobs/opens.py", 1, 2, store))


def test_what_others_give_runs_no_code(tmp_path: pathlib.Path) -> None:
    jobs.check("jobs/hostile.py", 2, MARK=str(tmp_path / "mark"))


def test_the_secret_is_in_a_private_file_while_the_job_starts() -> None:
    """Torch's store, which anybody may read, has its path; a file that others could have written is refused."""
    store = jobs.agent()
    first = jobs.start("jobs/member.py", 0, 2, store, TORCHELASTIC_RUN_ID="run")
    try:
        key = "torch_go_xla/run/0/2/store"
        store.wait([key])
        offer = store.get(key).decode()
        path = pathlib.Path(offer.partition('"file": "')[2].partition('"')[0])
        status = path.stat()
        assert (status.st_mode & 0o777, status.st_uid) == (0o600, os.geteuid())
        assert path.read_text() not in offer and len(path.read_text()) == 64
        second = jobs.start("jobs/member.py", 1, 2, store, TORCHELASTIC_RUN_ID="run")
        assert [p.wait(120) for p in (first, second)] == [0, 0]
        assert not path.exists()
    finally:
        first.kill()
