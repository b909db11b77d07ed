"""Sends SIGINT at random moments of public calls, with SPMD and without, and times how long each takes to be raised.

KeyboardInterrupt has to come within 10 s, and the next program has to give right values. A file that a save was
interrupted at has to be the one before or the one after. How a job starts is interrupted in the attack on jobs.
"""

from __future__ import annotations

import argparse
import copy
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import torch

from . import ROOT, Counts, main

LATE = 10.0  # seconds
DEVICES = ({"CPU_NUM_DEVICES": "2"}, {"CPU_NUM_DEVICES": "2", "XLA_USE_SPMD": "1"})


class Machine:
    """Calls of the package, on one state: ``w`` is all n, for an n that only grows by whole calls."""

    def __init__(self, folder: Path, spmd: bool) -> None:
        from torch.distributed.device_mesh import init_device_mesh

        import torch_go_xla
        import torch_go_xla.core.xla_model as xm

        self.package, self.xm = torch_go_xla, xm
        self.path = folder / "state.pt"
        self.x = torch.arange(64.0, device="xla").reshape(8, 8) / 64
        self.w = torch.zeros(64, 64, device="xla")
        self.n = self.k = 0
        self.step = torch_go_xla.compile(lambda x: (x @ x).sin().sum())
        # Exported before: an interrupt while torch traces may end the process, in torch (docs/reliability.md).
        self.exported = torch.export.export(torch.nn.Linear(8, 8), (torch.ones(2, 8),))
        self.mesh = init_device_mesh("xla", (2,)) if spmd else None
        xm.save({"w": self.w}, self.path)

    def fresh(self) -> object:
        """Record a program that was never compiled."""
        self.k += 1
        y = self.x
        for _ in range(self.k % 7 + 1):
            y = (y @ self.x).sin()
        return y.repeat(1, self.k % 50 + 1).cumsum(0)

    def write(self) -> None:
        """Record a write to the state."""
        self.w.add_(1)

    def calls(self) -> dict[str, Callable[[], object]]:
        """Return what is interrupted."""
        package = self.package
        found: dict[str, Callable[[], object]] = {
            "sync": lambda: (self.write(), package.sync()),
            "sync and wait": lambda: (self.write(), package.sync(wait=True)),
            "compile": lambda: (self.fresh(), package.sync()),
            "compile and fetch": lambda: self.fresh().cpu(),
            "item": lambda: (self.write(), self.w.sum().item()),
            "print": lambda: str(self.w),
            "upload": lambda: torch.ones(256, 256).to("xla").add_(1),
            "sizes": lambda: torch.nonzero(self.x > 0.5),
            "save": lambda: (self.write(), self.xm.save({"w": self.w}, self.path)),
            "torch.save": lambda: torch.save({"w": self.w}, os.devnull),
            "load": lambda: torch.load(self.path, map_location="xla")["w"].sum().item(),
            "replay": lambda: self.step(self.x).item(),
            "backward": lambda: self.train(),
            "to CPU kernels": lambda: torch.linalg.eigvals(self.x).abs().sum().item(),
            "dlpack": lambda: torch.from_dlpack(self.w).sum() if self.mesh is None else None,
        }
        found |= self.more()
        if self.mesh is not None:
            from torch.distributed.tensor import Replicate, Shard, distribute_tensor

            mesh = self.mesh
            found["distribute"] = lambda: distribute_tensor(torch.ones(8, 8), mesh, [Shard(0)])
            found["redistribute"] = lambda: (
                distribute_tensor(self.x, mesh, [Shard(0)]).sin().redistribute(mesh, [Replicate()]).full_tensor().cpu()
            )
        return found

    def more(self) -> dict[str, Callable[[], object]]:
        """Return calls of the package's other modules."""
        from torch_go_xla import runtime as xr
        from torch_go_xla.core import xla_model as xm
        from torch_go_xla.debug import metrics
        from torch_go_xla.experimental.distributed_checkpoint import CheckpointManager
        from torch_go_xla.experimental.scan import scan
        from torch_go_xla.utils import safetensors, serialization

        folder, state = self.path.parent, {"w": self.w}
        manager = CheckpointManager(folder / "steps", 1, max_to_keep=1, chkpt_on_preemption=False)
        carry = lambda c, x: (c + x.sum(), c * x.sum())  # noqa: E731
        return {
            "serialization.save": lambda: serialization.save(state, folder / "index.pt"),
            "safetensors.save_file": lambda: safetensors.save_file(state, folder / "w.safetensors"),
            "CheckpointManager.save": lambda: manager.save(1, state),
            "CheckpointManager.save_async": lambda: (manager.save_async(2, state), manager.join()),
            "all_reduce": lambda: xm.all_reduce("sum", self.x).sum().item(),
            "rendezvous": lambda: xm.rendezvous("tag"),
            "mesh_reduce": lambda: xm.mesh_reduce("tag", 1, sum),
            "scan": lambda: scan(carry, torch.zeros((), device="xla"), self.x)[1].sum().item(),
            "send_cpu_data_to_device": lambda: xm.send_cpu_data_to_device([torch.ones(64, 64)], "xla")[0].sum().item(),
            "wait_device_ops": xm.wait_device_ops,
            "get_memory_info": lambda: xm.get_memory_info(xm.xla_device()),
            "set_rng_state": lambda: (xm.set_rng_state(3), torch.rand(9, device="xla").sum().item()),
            "device attributes": lambda: (xr.global_runtime_device_attributes(), xr.device_type()),
            "metrics_report": metrics.metrics_report,
            "export": self.export,
            "deepcopy": lambda: copy.deepcopy(self.w).sum().item(),
            "clip_grad_norm": lambda: torch.nn.utils.clip_grad_norm_([torch.nn.Parameter(self.x)], 1.0),
        }

    def export(self) -> None:
        """Write a bundle."""
        from torch_go_xla.stablehlo import save_as_stablehlo

        folder = self.path.parent / "bundle"
        shutil.rmtree(folder, ignore_errors=True)
        save_as_stablehlo(self.exported, folder)

    def train(self) -> None:
        """Take a step of a model."""
        layer = torch.nn.Linear(8, self.k % 5 + 1).to("xla")
        layer(self.x).sum().backward()
        self.package.sync()

    def harm(self) -> str:
        """Return what is wrong afterwards, "" if nothing is."""
        w = self.w.cpu()
        if not ((w == w[0, 0]).all() and w[0, 0].item() in (self.n, self.n + 1)):
            return f"the state is {w.unique().tolist()}, not {self.n} or {self.n + 1}"
        self.n = int(w[0, 0].item())
        saved = torch.load(self.path)["w"]
        if saved.shape != w.shape or not (saved == saved[0, 0]).all():
            return "the file is neither the old one nor the new one"
        host = torch.arange(64.0).reshape(8, 8) / 64
        if not torch.allclose((self.x @ self.x).sin().cpu(), (host @ host).sin(), atol=1e-5):
            return "the next program gives wrong values"
        if not torch.allclose(self.step(self.x).cpu(), (host @ host).sin().sum(), atol=1e-3):
            return "the next replay gives wrong values"
        return ""


def grad_mode(interrupt: KeyboardInterrupt) -> str:
    """Return what is wrong with the grad mode after an interrupt, and put it right.

    An interrupt within ``torch.no_grad().__enter__`` leaves it off, which is torch's.
    """
    if torch.is_grad_enabled():
        return ""
    torch.set_grad_enabled(True)
    frames = traceback.extract_tb(interrupt.__traceback__)
    if any(frame.filename.endswith(("grad_mode.py", "_contextlib.py")) for frame in frames):
        return ""
    return f"the grad mode stays off: {[f'{f.filename}:{f.lineno}' for f in frames[-6:]]}"


def child(seed: int, seconds: float, most: int, spmd: bool) -> Counts:
    """Interrupt calls of this process until the time is over."""
    rng = random.Random(seed)
    counts = Counts()
    armed = False

    def handler(*_: object) -> None:
        nonlocal armed
        if armed:
            armed = False
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, handler)
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(Path(folder), spmd)
        calls = machine.calls()
        took = dict.fromkeys(calls, 0.1)
        for name in sorted(calls):  # a module of torch's that was interrupted as it was imported stays half
            try:
                calls[name]()
            except NotImplementedError:  # with SPMD
                del calls[name]
        machine.n = int(machine.w[0, 0].item())
        end = time.monotonic() + seconds
        names = sorted(calls)
        rng.shuffle(names)
        while time.monotonic() < end and counts.tries < most:
            name = names[counts.tries % len(names)]
            delay = rng.random() * min(took[name], 2.0) * 1.2
            counts.tries += 1
            sent: list[float] = []

            def send(delay: float = delay, sent: list[float] = sent) -> None:
                time.sleep(delay)
                sent.append(time.monotonic())
                os.kill(os.getpid(), signal.SIGINT)

            thread = threading.Thread(target=send)
            began, interrupted, error = time.monotonic(), False, ""
            try:
                armed = True
                thread.start()
                calls[name]()
                armed = False
                took[name] = max(0.5 * took[name], time.monotonic() - began)
            except KeyboardInterrupt as e:
                interrupted = True
                error = grad_mode(e)
            except Exception as e:
                armed = False
                error = f"raises {e!r}"
            ended = time.monotonic()
            thread.join()
            time.sleep(0.001)  # a signal that came too late is ignored here
            armed = False
            found = error or machine.harm()
            if interrupted:
                if not found and ended - sent[0] > LATE:
                    found = f"the interrupt came after {ended - sent[0]:.1f} s"
                harm = found and f"seed {seed}, spmd {spmd}, try {counts.tries}, {name}, {delay:.4f} s: {found}"
                counts.judge(harm, name, max(0.0, ended - sent[0]))
            elif found:
                counts.judge(f"seed {seed}, spmd {spmd}, try {counts.tries}, {name}, not interrupted: {found}")
    return counts


def run(seed: int, seconds: float, most: int) -> Counts:
    """Interrupt calls in processes of a kind each."""
    total = Counts()
    for number, devices in enumerate(DEVICES):
        spmd = "XLA_USE_SPMD" in devices
        command = [sys.executable, "-W", "ignore", "-m", "tests.torture.interrupts", "--child"]
        command += ["--seed", str(len(DEVICES) * seed + number), *(["--spmd"] if spmd else [])]
        command += ["--minutes", str(seconds / 60 / len(DEVICES)), "--tries", str(-(-most // len(DEVICES)))]
        env = {**os.environ, **devices}
        try:
            done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, timeout=seconds + 240, cwd=ROOT)
        except subprocess.TimeoutExpired:
            total.judge(f"seed {seed}, {devices}: did not end")
            continue
        counts = Counts.of(done.stdout)
        if done.returncode not in (0, 1) or counts is None:
            total.judge(f"seed {seed}, {devices}: exit status {done.returncode}: {done.stdout[-2000:]}")
            continue
        total.add(counts)
    return total


if __name__ == "__main__":
    p = argparse.ArgumentParser(add_help=False)
    p.add_argument("--child", action="store_true")
    p.add_argument("--spmd", action="store_true")
    own, sys.argv[1:] = p.parse_known_args()
    main((lambda seed, seconds, most: child(seed, seconds, most, own.spmd)) if own.child else run)
