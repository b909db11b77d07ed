"""Checkpoints by step: what a fault leaves, and saves where threads are hard to get."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import threading
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch.distributed.checkpoint.filesystem import FileSystem

from torch_go_xla.experimental import distributed_checkpoint
from torch_go_xla.experimental.distributed_checkpoint import CheckpointManager
from torch_go_xla.utils import whole_file

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")


def state(value: float) -> dict[str, torch.Tensor]:
    return {"x": torch.full((4,), value).to("xla"), "n": torch.tensor(value)}


def restored(manager: CheckpointManager, step: int) -> float:
    found = {"x": torch.zeros(4, device="xla"), "n": torch.zeros(())}
    manager.restore(step, found)
    (value,) = {*found["x"].tolist(), found["n"].item()}
    return value


@pytest.fixture
def manager(tmp_path: Path) -> CheckpointManager:
    made = CheckpointManager(tmp_path / "run", 1, chkpt_on_preemption=False)
    for step in (1, 2, 3):
        made.save(step, state(step))
    return made


BAD_MARKS = {
    "empty": "",
    "not JSON": "half a ma",
    "not a dictionary": "[1]",
    "of another step": '{"step": 7, "time": 1.0}',
    "without a time": '{"step": 2}',
}


@pytest.mark.parametrize("text", BAD_MARKS.values(), ids=BAD_MARKS)
def test_a_bad_mark_costs_its_step_only(manager: CheckpointManager, text: str) -> None:
    mark = manager.base_path / "2" / ".manager_metadata"
    mark.write_text(text)
    with pytest.warns(UserWarning, match=str(mark)):
        assert manager.all_steps() == [1, 3]
    with pytest.warns(UserWarning, match=str(mark)), pytest.raises(ValueError, match="no checkpoint of step 2"):
        manager.restore(2, state(0))
    with pytest.warns(UserWarning, match=str(mark)):
        assert restored(manager, 1) == 1
        manager.save(4, state(4))
    with pytest.warns(UserWarning, match=str(mark)):
        manager.save(2, state(20))
    assert manager.all_steps() == [1, 2, 3, 4] and restored(manager, 2) == 20


def test_a_step_saved_again_stays_until_the_new_one_is_whole(manager: CheckpointManager, monkeypatch) -> None:
    found = []

    def failing(*args: object, **options: object) -> None:
        found.append(restored(CheckpointManager(manager.base_path, 1, chkpt_on_preemption=False), 2))
        raise OSError("no space left on device")

    rename = Path.rename

    def failing_in_place(path: Path, to: Path) -> Path:
        if Path(to).name == "2" and path.suffix == ".part":
            failing()
        return rename(path, to)

    for module, name in ((distributed_checkpoint, "save"), (whole_file, "replacing"), (Path, "rename")):
        monkeypatch.setattr(module, name, failing_in_place if module is Path else failing)
        with pytest.raises(OSError, match="no space"):
            manager.save(2, state(20))
        monkeypatch.undo()
        assert restored(manager, 2) == 2 and sorted(os.listdir(manager.base_path)) == ["1", "2", "3"]
    assert found == [2, 2, 2]
    manager.save(2, state(20))
    assert restored(manager, 2) == 20 and sorted(os.listdir(manager.base_path)) == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("step", "where", "want"),
    [
        (2, ("Path", "rename", "2"), {1: 1, 2: 2, 3: 3}),  # the old one is aside, the new one not yet there
        (2, ("Path", "unlink", "0"), {1: 1, 2: 20, 3: 3}),  # the new one is there, the old one not yet removed
        (4, ("shutil", "rmtree", "0"), {2: 2, 3: 3, 4: 20}),  # the mark of the oldest is gone, its data not
        (4, ("whole_file", "replacing", "0"), {1: 1, 2: 2, 3: 3}),
    ],
)
def test_a_kill_leaves_the_old_or_the_new(python, manager: CheckpointManager, step, where, want) -> None:
    done = python("distributed_checkpoint/killed.py", manager.base_path, *where, step)
    assert done.code == -9, done.err
    assert {s: restored(manager, s) for s in manager.all_steps()} == want
    manager.save(9, state(9))
    assert sorted(os.listdir(manager.base_path)) == sorted(map(str, {*want, 9}))
    assert {s: restored(manager, s) for s in manager.all_steps()} == {**want, 9: 9}


def test_an_old_one_that_cannot_be_removed_fails_no_save(manager: CheckpointManager, monkeypatch) -> None:
    def refused(path: object, *args: object, **options: object) -> None:
        if not options:
            raise PermissionError(f"{path} cannot be removed")

    monkeypatch.setattr(shutil, "rmtree", refused)
    with pytest.warns(UserWarning, match="step 3 is saved, but"):
        manager.save(3, state(30))
    monkeypatch.undo()
    assert restored(manager, 3) == 30


def test_an_interrupt_is_raised_as_such(manager: CheckpointManager, monkeypatch) -> None:
    fsync = os.fsync

    def interrupted(fd: int) -> None:
        if "distcp" in os.readlink(f"/proc/self/fd/{fd}"):
            raise KeyboardInterrupt
        fsync(fd)

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        manager.save(2, state(20))
    monkeypatch.undo()
    assert restored(manager, 2) == 2 and sorted(os.listdir(manager.base_path)) == ["1", "2", "3"]


@pytest.mark.parametrize("at", [4, 8, 12])
def test_an_interrupt_in_a_record_is_raised_as_such(manager: CheckpointManager, monkeypatch, at: int) -> None:
    opened = FileSystem.create_stream

    @contextlib.contextmanager
    def interrupted(self: FileSystem, path: Path, mode: str) -> Iterator[object]:
        with opened(self, path, mode) as stream:
            write, calls = stream.write, itertools.count(1)

            def counted(data: bytes) -> int:
                if next(calls) == at:
                    raise KeyboardInterrupt
                return write(data)

            yield types.SimpleNamespace(**{n: getattr(stream, n) for n in dir(stream)} | {"write": counted})

    monkeypatch.setattr(FileSystem, "create_stream", interrupted)
    with pytest.raises(KeyboardInterrupt):
        manager.save(2, state(20))
    monkeypatch.undo()
    assert restored(manager, 2) == 2 and sorted(os.listdir(manager.base_path)) == ["1", "2", "3"]


def test_asynchronous_saves_are_in_order_and_bounded(tmp_path: Path, monkeypatch) -> None:
    running, most = [], []
    manager = CheckpointManager(tmp_path, 1, max_pending_async=2, chkpt_on_preemption=False)
    write = manager._save

    def watched(step: int, data: dict[str, torch.Tensor]) -> None:
        running.append(step)
        most.append(sum(not saving.done() for saving in manager._pending))
        if step == 3:
            raise OSError("no space left on device")
        write(step, data)

    monkeypatch.setattr(manager, "_save", watched)
    for step in range(8):
        manager.save_async(step, state(step))
    with pytest.raises(OSError, match="no space"):
        manager.join()
    assert running == list(range(8)) and max(most) <= 3
    assert manager.all_steps() == [0, 1, 2, 4, 5, 6, 7]
    manager.join()


def test_an_interrupted_join_can_be_repeated(tmp_path: Path, monkeypatch) -> None:
    manager = CheckpointManager(tmp_path, 1, chkpt_on_preemption=False)
    wait, go_on = manager._wait_for, threading.Event()

    def failing(step: int, data: dict[str, torch.Tensor]) -> None:
        go_on.wait(60)
        raise OSError("no space left on device")

    def interrupted(saving: object) -> None:
        monkeypatch.setattr(manager, "_wait_for", wait)
        raise KeyboardInterrupt

    monkeypatch.setattr(manager, "_save", failing)
    manager.save_async(1, state(1))
    monkeypatch.setattr(manager, "_wait_for", interrupted)
    with pytest.raises(KeyboardInterrupt):
        manager.join()
    go_on.set()
    with pytest.raises(OSError, match="no space"):
        manager.join()
    manager.join()
