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


def kill_host(agent: subprocess.Popen[str]) -> None:
    """Kill an agent and the processes that it has started, which are in sessions of their own."""
    for task in pathlib.Path(f"/proc/{agent.pid}/task").glob("*/children"):
        for child in task.read_text().split():
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(int(child), signal.SIGKILL)
    agent.kill()
    agent.wait()


def check_restarts(folder: pathlib.Path, restarts: int) -> None:
    """Have torchrun start a job again and again."""
    program = processes.PROGRAMS / "jobs/resume.py"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += [f"--max-restarts={restarts}", "--monitor-interval=0.1", str(program)]
    env = {**processes.environment(), "CHECKPOINT": str(folder / "checkpoint"), "ATTEMPTS": str(restarts)}
    pipe = subprocess.PIPE
    agent = subprocess.Popen(command, env=env, stdout=pipe, stderr=pipe, text=True)
    try:
        out, err = agent.communicate(timeout=120 + 60 * restarts)
    finally:
        kill_host(agent)
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


class Elastic:
    """A job of one agent that stays and another that comes and goes; each change of the size starts it again."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._store = jobs.agent()
        self._folder = folder
        self._log = folder / "log"
        self._log.mkdir()
        self._seen = -1  # the last step that a size was seen at

    def start(self, processes_of_it: int) -> subprocess.Popen[str]:
        """Start an agent with so many processes."""
        command = [sys.executable, "-m", "torch.distributed.run", "--nnodes=1:2", f"--nproc-per-node={processes_of_it}"]
        command += ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{self._store.port}", "--rdzv-id=elastic"]
        command += ["--rdzv-conf=is_host=0,last_call_timeout=1,keep_alive_interval=1", "--local-addr=127.0.0.1"]
        command += ["--max-restarts=1000", "--monitor-interval=0.1"]
        command += [str(processes.PROGRAMS / "jobs/resume_elastic.py")]
        env = {**processes.environment(), "CHECKPOINT": str(self._folder / "checkpoint"), "LOG": str(self._log)}
        # Torch publishes the address of a shared store for the first round only: who joins later would not find it.
        env["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
        out = (self._folder / "output").open("a")
        return subprocess.Popen(command, env=env, stdout=out, stderr=out, text=True)

    def steps(self) -> dict[int, dict[int, tuple[float, ...]]]:
        """Return what the processes of each step have written: size, count before and after."""
        found: dict[int, dict[int, tuple[float, ...]]] = {}
        for path in self._log.glob("[0-9]*"):
            step, process = map(int, path.name.split("."))
            found.setdefault(step, {})[process] = tuple(map(float, path.read_text().split()))
        return found

    def wait_for(self, size: int) -> None:
        """Wait until a job of this size has taken a step since the last call."""
        until = time.monotonic() + 180
        while time.monotonic() < until:
            for step, wrote in sorted(self.steps().items()):
                if step > self._seen and sorted(wrote) == list(range(size)) and wrote[0][0] == size:
                    self._seen = step
                    return
            time.sleep(0.1)
        raise AssertionError(f"no job of {size}: {self.steps()}\n{(self._folder / 'output').read_text()[-8000:]}")

    def end(self) -> None:
        """Have the processes end by themselves."""
        (self._log / "end").touch()


def test_an_elastic_job_goes_on_in_other_sizes(tmp_path: pathlib.Path) -> None:
    """Agents join and are killed; the job goes on from its checkpoint with more processes, or fewer."""
    job = Elastic(tmp_path)
    with contextlib.ExitStack() as stack:

        def start(size: int) -> subprocess.Popen[str]:
            agent = job.start(size)
            stack.callback(kill_host, agent)
            return agent

        stays = start(1)
        job.wait_for(1)
        for change in range(int(os.environ.get("RESTARTS", "3"))):
            if change % 2 == 0:
                more = 1 + change // 2 % 2
                other = start(more)
                job.wait_for(1 + more)
            else:
                kill_host(other)
                job.wait_for(1)
        job.end()
        assert stays.wait(timeout=120) == 0, (tmp_path / "output").read_text()[-8000:]
    steps = job.steps()
    for step, wrote in steps.items():
        assert len(set(wrote.values())) == 1, f"the processes of step {step} differ: {wrote}"
        size, before, after = wrote[0]
        assert after == before + size, (step, wrote)
        if step - 1 in steps:
            assert steps[step - 1][0][2] == before, (step, steps)


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


@pytest.mark.parametrize(
    ("rank", "env", "says"),
    [
        (0, {}, "process 1"),
        (1, {}, "process 0 of the job serves no store that can be reached within 0:00:03"),
        (1, {"MASTER_PORT": "1"}, "timed out"),
    ],
)
def test_a_process_that_is_not_started_is_told_of(rank: int, env: dict[str, str], says: str) -> None:
    store = jobs.agent()
    p = jobs.start("jobs/opens.py", rank, 2, store, **env, TORCH_GO_XLA_JOB_TIMEOUT="3")
    try:
        _, err = p.communicate(timeout=100)
    finally:
        p.kill()
    assert p.returncode == 1 and says in err, (p.returncode, err)


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
