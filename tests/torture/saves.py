"""Every kind of save under a fault at each of its system calls: the old or the new data load afterwards, whole.

A save that returned without an error must have saved, an interrupt must be raised as such, and the next save must
leave nothing of the failed one. The faults are a full disk, one write that fails for that, an input/output error, a
SIGINT, a SIGKILL, and a signal whose handler saves the same. They come from a library that is loaded before the C
library (`_faults.c`); its log also tells what a rename finds unflushed.
"""

from __future__ import annotations

import errno
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tests.torture import ROOT, UNBOUNDED, Counts, main
from tests.torture._faults import FAIL, FAIL_FROM, INTERRUPT, KILL, SIGNAL, Faults, environment, unflushed

LARGE = 1 << 20  # elements of the largest tensor: two buffers


def tensors(version: int) -> dict[str, torch.Tensor]:
    """Return a state of which every element is its version."""
    return {name: torch.full((n,), float(version)).to("xla") for name, n in (("w", LARGE), ("b", 100), ("e", 1))}


def version_of(state: dict[str, Any]) -> int:
    """Return the version of a whole state."""
    version = int(state["e"])
    assert state["w"].shape == (LARGE,) and len(state) == 3 and all((t == version).all() for t in state.values())
    return version


@dataclass
class Kind:
    """A way to save: writes a version to a folder, and reads the version that is there."""

    name: str
    save: Callable[[Path, int], None]
    load: Callable[[Path], int]


def _kinds() -> Iterator[Kind]:
    from safetensors.torch import load_file

    import torch_go_xla.core.xla_model as xm
    from torch_go_xla.experimental.distributed_checkpoint import CheckpointManager
    from torch_go_xla.utils import safetensors, serialization

    def manager(folder: Path) -> CheckpointManager:
        return CheckpointManager(folder, 1, max_to_keep=1, chkpt_on_preemption=False)

    def restored(folder: Path, step: int) -> int:
        state = {"w": torch.zeros(LARGE), "b": torch.zeros(100), "e": torch.zeros(1)}
        manager(folder).restore(step, state)
        return version_of(state)

    def newest(folder: Path) -> int:
        versions = {step: restored(folder, step) for step in manager(folder).all_steps()}
        assert all(step == version for step, version in versions.items()), versions
        return max(versions)

    yield Kind(
        "xm.save",
        lambda folder, v: xm.save(tensors(v), folder / "a.pt"),
        lambda folder: version_of(torch.load(folder / "a.pt", weights_only=True)),
    )
    yield Kind(
        "serialization.save",
        lambda folder, v: serialization.save(tensors(v), folder / "a.pt"),
        lambda folder: version_of(serialization.load(folder / "a.pt")),
    )
    yield Kind(
        "safetensors.save_file",
        lambda folder, v: safetensors.save_file(tensors(v), folder / "a.safetensors"),
        lambda folder: version_of(load_file(folder / "a.safetensors")),
    )
    yield Kind(
        "CheckpointManager.save, the same step",
        lambda folder, v: (manager(folder).save(7, tensors(v)), None)[1],
        lambda folder: restored(folder, 7),
    )
    yield Kind(
        "CheckpointManager.save, the next step",
        lambda folder, v: (manager(folder).save(v, tensors(v)), None)[1],
        newest,
    )

    def in_background(folder: Path, v: int) -> None:
        m = manager(folder)
        try:
            m.save_async(v, tensors(v))
            m.join()
        except KeyboardInterrupt:
            m.join()  # the writing goes on
            raise

    yield Kind("CheckpointManager.save_async", in_background, newest)


# The names that docs/saving.md gives to what is saved, and to what a save that is killed leaves beside it.
NAMES = re.compile(r"a\.pt|a\.pt\.tensors|a\.safetensors|\d+|\.(a\.pt|a\.safetensors|\d+)\.[0-9a-f]{12}\.(part|old)")

# What can happen at a call, with the errno.
FAULTS = {
    "disk full": (FAIL_FROM, errno.ENOSPC),
    "disk full once": (FAIL, errno.ENOSPC),
    "input/output error": (FAIL, errno.EIO),
    "interrupt": (INTERRUPT, 0),
    "handler saves": (SIGNAL, 0),
    "kill": (KILL, 0),
}


class Torture:
    """Saves of one process, which has the shim, and of its children."""

    def __init__(self, folder: Path) -> None:
        self.faults = Faults()
        self.counts = Counts()
        self._folder = folder
        self._children: subprocess.Popen[str] | None = None

    def calls_of(self, kind: Kind) -> int:
        """Save twice; return the number of the second save's calls. What it does not flush is lost."""
        folder = self._folder_of(kind)
        kind.save(folder, 0)
        self.faults.arm(folder)
        kind.save(folder, 1)
        count = self.faults.disarm()
        self.counts.tries += 2
        self.counts.lost += [f"{kind.name}: {late}" for late in unflushed(self.faults.log())]
        return count

    def attack(self, kind: Kind, fault: str, k: int) -> None:
        """Save with a fault at the k-th call, then load, then save and load again."""
        folder = self._folder_of(kind)
        what = f"{kind.name}, {fault} at call {k}"
        old = kind.load(folder)
        new = old + 2 if fault == "handler saves" else old + 1
        signal.signal(signal.SIGUSR1, lambda *_: kind.save(folder, old + 1))
        hit, error = (self._kill if fault == "kill" else self._fail)(kind, fault, k, new)
        harm, found = "", -1
        try:
            found = kind.load(folder)
        except BaseException as e:
            harm = f"{type(e).__name__}: {e}"
            for path in folder.iterdir():  # the next try starts with a good one
                path.rename(self._folder / f"lost {self.counts.faults} {path.name}")
        if not harm and found not in ([old, new] if error is not None else range(old + 1, new + 1)):
            harm = f"loads version {found}, not {old} or {new}; raised {error!r}"
        if not harm and fault == "interrupt" and hit and not isinstance(error, KeyboardInterrupt):
            harm = f"the interrupt has become {error!r}"
        if not harm and fault == "handler saves" and error is not None:
            harm = f"the save of the handler has become {error!r}"
        if not harm and (strange := [name for name in os.listdir(folder) if not NAMES.fullmatch(name)]):
            harm = f"leaves {strange}, which docs/saving.md does not name"
        kind.save(folder, found + 1)
        if not harm and (again := kind.load(folder)) != found + 1:
            harm = f"the next save leaves version {again}, not {found + 1}"
        if not harm and len(left := os.listdir(folder)) > 2:
            harm = f"the next save leaves {left}"
        self.counts.tries += 2
        if hit or harm:
            self.counts.judge(harm and f"{what}: {harm}", f"{kind.name}: {fault}")

    def _fail(self, kind: Kind, fault: str, k: int, version: int) -> tuple[bool, BaseException | None]:
        action, number = FAULTS[fault]
        error: BaseException | None = None
        try:
            self.faults.arm(self._folder_of(kind), action, k, number)
            kind.save(self._folder_of(kind), version)
            time.sleep(0.001)  # for a signal that is on its way
        except BaseException as e:
            error = e
        return self.faults.disarm() >= k, error

    def _kill(self, kind: Kind, fault: str, k: int, version: int) -> tuple[bool, BaseException | None]:
        if self._children is None:
            self._children = subprocess.Popen(
                [sys.executable, Path(__file__).with_name("programs") / "savers.py"],
                **{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1},
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
            )
        assert self._children.stdin is not None and self._children.stdout is not None
        print(kind.name, self._folder_of(kind), k, version, sep="\t", file=self._children.stdin)
        status = int(self._children.stdout.readline())
        return status != 0, None if status == 0 else SystemExit(status)

    def close(self) -> None:
        if self._children is not None:
            assert self._children.stdin is not None
            self._children.stdin.close()
            self._children.wait(60)

    def _folder_of(self, kind: Kind) -> Path:
        folder = self._folder / kind.name
        folder.mkdir(exist_ok=True)
        return folder


def killed(name: str, folder: str, k: str, version: str) -> None:
    """Save in a process that is killed at the k-th call."""
    warnings.simplefilter("ignore")
    (kind,) = [kind for kind in _kinds() if kind.name == name]
    faults = Faults()
    tensors(0)["w"].cpu()
    faults.arm(Path(folder), KILL, int(k))
    kind.save(Path(folder), int(version))
    os._exit(0)


def torture(folder: Path, seconds: float, seed: int, most: int) -> Counts:
    """Attack each kind of save at all its calls, in the order of a seed, until the time is over, and then again.

    With a bound on the tries it takes one call of each kind and fault in turn.
    """
    warnings.simplefilter("ignore")
    chance = random.Random(seed)
    work = Torture(folder)
    try:
        calls = [(kind, range(1, work.calls_of(kind) + 1)) for kind in _kinds()]
        end = time.monotonic() + seconds
        print("calls:", ", ".join(f"{kind.name} {len(numbers)}" for kind, numbers in calls))
        while True:
            numbers_of = lambda numbers: numbers if most == UNBOUNDED else [chance.choice(numbers)]  # noqa: E731
            tries = [(kind, fault, k) for kind, numbers in calls for fault in FAULTS for k in numbers_of(numbers)]
            chance.shuffle(tries)
            for one in tries:
                if time.monotonic() > end or work.counts.tries >= most or len(work.counts.lost) >= 20:
                    return work.counts
                work.attack(*one)
    finally:
        work.close()


def run(seed: int, seconds: float, most: int) -> Counts:
    """Run in a process that has the shim."""
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        program = (
            "from pathlib import Path; from tests.torture.saves import torture;"
            f"print(torture(Path({folder!r}), {seconds}, {seed}, {most}).line())"
        )
        command = [sys.executable, "-W", "ignore", "-c", program]
        done = subprocess.run(command, env=environment(Path(folder)), stdout=subprocess.PIPE, text=True)
        print(done.stdout.partition("\n")[0])
        if (counts := Counts.of(done.stdout)) is None:
            counts = Counts()
            counts.judge(f"seed {seed}: exit status {done.returncode}: {done.stdout[-2000:]}")
        return counts


if __name__ == "__main__":
    main(run)
