"""What is done: each case is set up once in a process and then gives samples.

A case is a function of the subject and of whether it shall be quick. It returns a function that does the work of
one sample, waits for it, and leaves everything as it was, and the number of units in that work. `SPECS` says in
what unit a time is printed and how many samples are wanted. Cases with ``fresh`` need a new process per sample. The
work of a case in MB returns its figure itself.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .subjects import Subject

Sample = tuple[Callable[[], Any], int]
Case = Callable[[Subject, bool], Sample]


@dataclass(frozen=True)
class Spec:
    """How a case is measured and printed."""

    title: str
    unit: str  # us, ms, s or MB
    samples: int
    quick_samples: int
    fresh: bool = False


SPECS = {
    "import": Spec("import of the package", "s", 7, 1, fresh=True),
    "first-step": Spec("first training step of an MLP, from the model on the CPU to the loss", "s", 5, 1, fresh=True),
    "trace-add": Spec("recording: x = x + 1 on 2x2, per op", "us", 15, 5),
    "trace-mixed": Spec("recording: eight different ops, per op", "us", 15, 5),
    "trace-inplace": Spec("recording: x.add_(1), per op", "us", 15, 5),
    "trace-view": Spec("recording: x[0].add_(1), per op of two", "us", 15, 5),
    "cached-10": Spec("step of 10 small ops, compiled before", "us", 15, 5),
    "cached-100": Spec("step of 100 small ops, compiled before", "us", 15, 5),
    "cached-1000": Spec("step of 1000 small ops, compiled before", "us", 11, 3),
    "mlp": Spec("training step of an MLP", "ms", 11, 3),
    "gpt": Spec("training step of a GPT, 8 x 128 words (quick: 2 x 32)", "ms", 7, 3),
    "resnet": Spec("training step of a ResNet-18, 32 images (quick: 4)", "ms", 5, 2),
    "save": Spec("saving 200 MB", "ms", 9, 3),
    "save-memory": Spec("peak of host memory while saving 200 MB, beyond what was used before", "MB", 5, 1),
    "to-device": Spec("256 MB to the device", "ms", 11, 3),
    "to-host": Spec("256 MB from the device", "ms", 11, 3),
    "item": Spec(".item() of a computed value", "us", 15, 5),
    "scalar": Spec("torch.tensor(1.0) to the device", "us", 15, 5),
    "matmul": Spec("matrix product, 2048 x 2048 (quick: 1024)", "ms", 15, 5),
    "fused": Spec("8 elementwise ops on 64 M numbers (quick: 8 M)", "ms", 9, 3),
}


def _chain(s: Subject, body: Callable[[Any, Any], int]) -> Sample:
    """Record chains of ops and drop them: they are never computed where that can be told apart.

    A sample is several chains, so that it does not measure how cold the caches are after another subject's turn.
    """
    import torch

    x, y = torch.zeros(2, 2, device=s.device), torch.ones(2, 2, device=s.device)
    s.sync()
    s.wait()
    chains = 5
    n = body(x, y)

    def sample() -> None:
        for _ in range(chains):
            body(x, y)

    return sample, chains * n


def trace_add(s: Subject, quick: bool) -> Sample:
    """Add a number 1000 times."""

    def body(x: Any, y: Any) -> int:
        for _ in range(1000):
            x = x + 1
        return 1000

    return _chain(s, body)


def trace_mixed(s: Subject, quick: bool) -> Sample:
    """Run eight ops 125 times."""
    import torch

    def body(x: Any, y: Any) -> int:
        for _ in range(125):
            x = (((x + 1) * y).relu().t() @ y).reshape(4).view(2, 2)
            x = torch.maximum(x, y)
        return 1000

    return _chain(s, body)


def trace_inplace(s: Subject, quick: bool) -> Sample:
    """Write to a tensor 1000 times."""

    def body(x: Any, y: Any) -> int:
        x = x.clone()
        for _ in range(1000):
            x.add_(1)
        return 1000

    return _chain(s, body)


def trace_view(s: Subject, quick: bool) -> Sample:
    """Take a view of a tensor and write to it, 100 times."""

    def body(x: Any, y: Any) -> int:
        x = x.clone()
        for _ in range(100):
            x[0].add_(1)
        return 200

    return _chain(s, body)


def cached(n: int) -> Case:
    """Return the case of a step of n ops, pipelined."""

    def case(s: Subject, quick: bool) -> Sample:
        import torch

        scale, shift = (torch.full((4,), v, device=s.device) for v in (1.0001, 0.5))
        steps = max(20, 2000 // n) if quick else max(30, 10000 // n)

        def sample() -> None:
            x = torch.zeros(4, device=s.device)
            for _ in range(steps):
                for _ in range(n // 2):
                    x = x * scale
                    x = x + shift
                s.sync()
            s.wait()

        sample()
        return sample, steps

    return case


def _step(s: Subject, name: str, quick: bool) -> Callable[[], Any]:
    """Return a function that takes a training step and returns the loss."""
    import torch
    import torch.nn.functional as F

    from .models import TASKS

    torch.manual_seed(0)
    model, x, y, make = TASKS[name](quick)
    model.to(s.device)
    x, y = x.to(s.device), y.to(s.device)
    optimizer = make(model.parameters())

    def step() -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        s.sync()
        return loss.detach()

    return step


def training(name: str, steps: int, quick_steps: int) -> Case:
    """Return the case of training a model, pipelined."""

    def case(s: Subject, quick: bool) -> Sample:
        step = _step(s, name, quick)
        n = quick_steps if quick else steps

        def sample() -> None:
            for _ in range(n):
                step()
            s.wait()

        for _ in range(3):  # the first makes the optimizer's state
            step()
        s.wait()
        return sample, n

    return case


def first_step(s: Subject, quick: bool) -> Sample:
    """Move an MLP to the device, take one step, read the loss."""
    return lambda: _step(s, "mlp", quick)().item(), 1


def _saver(s: Subject) -> Callable[[], None]:
    """Return a function that saves fifty tensors of a million numbers."""
    import torch

    tensors = {f"p{i}": torch.randn(1 << 20, device=s.device) for i in range(50)}
    s.sync()
    s.wait()
    folder = tempfile.TemporaryDirectory()
    path = os.path.join(folder.name, "a.pt")
    write = s.save
    assert write is not None, f"{s.name} cannot save"

    def sample(folder: Any = folder) -> None:  # holds the folder
        write(tensors, path)

    return sample


def save(s: Subject, quick: bool) -> Sample:
    """Save fifty tensors of a million numbers."""
    return _saver(s), 1


def save_memory(s: Subject, quick: bool) -> Sample:
    """Save fifty tensors of a million numbers and return by how many bytes the resident memory grew at its peak."""
    work = _saver(s)
    work()

    def sample() -> float:
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
        before = _status("VmRSS")
        work()
        return _status("VmHWM") - before

    return sample, 1


def _status(name: str) -> float:
    """Return a figure of this process in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024.0 for line in lines if line.startswith(name + ":"))


def to_device(s: Subject, quick: bool) -> Sample:
    """Copy 64 M floats to the device."""
    import torch

    host = torch.randn(64 << 20)

    def sample() -> None:
        there = host.clone() if s.device == "cpu" else host.to(s.device)
        s.sync()
        s.wait()
        del there

    return sample, 1


def to_host(s: Subject, quick: bool) -> Sample:
    """Copy 64 M floats from the device."""
    import torch

    there = torch.randn(64 << 20).to(s.device)
    s.sync()
    s.wait()
    return lambda: there.clone() if s.device == "cpu" else there.cpu(), 1


def item(s: Subject, quick: bool) -> Sample:
    """Read one number fifty times."""
    import torch

    x = torch.zeros(1, device=s.device)
    s.sync()
    s.wait()
    return lambda: [x.item() for _ in range(50)], 50


def scalar(s: Subject, quick: bool) -> Sample:
    """Make a number on the CPU and copy it to the device, two hundred times."""
    import torch

    def sample() -> None:
        for _ in range(200):
            there = torch.tensor(1.0)
            there = there.clone() if s.device == "cpu" else there.to(s.device)

    return sample, 200


def matmul(s: Subject, quick: bool) -> Sample:
    """Multiply two square matrices, of 2048 (1024 when quick)."""
    import torch

    size = 1024 if quick else 2048
    a, b = (torch.randn(size, size).to(s.device) for _ in range(2))

    def sample() -> None:
        c = a @ b
        s.sync()
        s.wait()
        del c

    return sample, 1


def fused(s: Subject, quick: bool) -> Sample:
    """Run eight elementwise ops over 64 M floats (8 M when quick)."""
    import torch

    x = torch.rand((8 if quick else 64) << 20).to(s.device)

    def sample() -> None:
        y = ((x * 1.5 + 0.5).relu() * x - 1).abs().sqrt() + x
        s.sync()
        s.wait()
        del y

    return sample, 1


CASES: dict[str, Case] = {
    "first-step": first_step,
    "trace-add": trace_add,
    "trace-mixed": trace_mixed,
    "trace-inplace": trace_inplace,
    "trace-view": trace_view,
    "cached-10": cached(10),
    "cached-100": cached(100),
    "cached-1000": cached(1000),
    "mlp": training("mlp", 100, 20),
    "gpt": training("gpt", 10, 3),
    "resnet": training("resnet", 4, 1),
    "save": save,
    "save-memory": save_memory,
    "to-device": to_device,
    "to-host": to_host,
    "item": item,
    "scalar": scalar,
    "matmul": matmul,
    "fused": fused,
}
