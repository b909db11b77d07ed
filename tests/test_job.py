"""Several processes that compute together, each with a device of its own, against one process on the CPU."""

from __future__ import annotations

import ipaddress
import pathlib
import subprocess
import sys

import jobs
import processes
import pytest

from torch_go_xla import _job

pytestmark = [pytest.mark.longer, pytest.mark.xdist_group("processes")]


def test_collectives_under_torchrun() -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command.append(str(processes.PROGRAMS / "jobs/collectives.py"))
    done = subprocess.run(
        command, env=processes.environment(), capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("done") == 2


def test_a_process_alone(ok) -> None:
    """No one has launched it: it is a job of one."""
    ok("jobs/a_process_alone.py")
    ok("jobs/launched_alone.py")


def test_training_equals_one_process_and_survivors_go_on(tmp_path: pathlib.Path) -> None:
    """Train on four processes, save, load on three; then one of them is killed in the midst of a step."""
    checkpoint = str(tmp_path / "checkpoint")
    jobs.check(
        "jobs/train_and_save.py",
        4,
        CHECKPOINT=checkpoint,
    )
    ended = jobs.run(
        "jobs/load_and_die.py",
        3,
        timeout=120,
        CHECKPOINT=checkpoint,
    )
    assert [p.code for p in ended] == [0, -9, 0], "\n".join(p.out + p.err for p in ended)
    assert [p.out.split() for p in ended[::2]] == [["loaded", "[2.0,", "2.0]"]] * 2


def test_processes_that_exchange_different_things_are_told() -> None:
    program = processes.PROGRAMS / "jobs/mismatch.py"
    done = subprocess.run(
        [sys.executable, program], env=processes.environment(), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("told") == 2


@pytest.mark.parametrize(
    ("master", "address"), [("127.0.0.1", "127.0.0.1"), ("localhost", "127.0.0.1"), ("127.1", None)]
)
def test_the_address_in_a_job_of_several_agents(
    monkeypatch: pytest.MonkeyPatch, master: str, address: str | None
) -> None:
    """The master may know itself by a loopback address, as hosts files have it: others need one that leads there."""
    monkeypatch.setenv("MASTER_ADDR", master)
    monkeypatch.setenv("MASTER_PORT", "29500")
    found = _job.Job(rank=0, world_size=2, local_rank=0, local_world_size=1).address()
    assert ipaddress.IPv4Address(found)
    assert found == "127.0.0.1" or master == "127.1", "all are on this machine"


def test_agents_that_have_counted_different_restarts_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that joins later has counted fewer, if the store is not the agents'."""
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "a run")
    for agents, same in (("False", True), ("True", False)):
        monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", agents)
        scopes = set()
        for count in ("0", "1"):
            monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", count)
            scopes.add(_job.scope())
        assert (len(scopes) == 1) is same


def test_a_group_for_the_cpu_leaves_a_process_its_own_device() -> None:
    """Where no backend is named torch makes ours too, which no one may ever use."""
    jobs.check("jobs/unnamed.py", 2)
