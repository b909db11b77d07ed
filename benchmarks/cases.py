"""What is done: each case is set up once in a process and then gives samples.

A case is a function of the subject and of whether it is quick. It returns a function and the number of
units in its work. The function does the work of one sample, waits for it, and leaves everything as it was. `SPECS`
says in what unit a time is printed, how many samples are wanted, and what this project's target is. Cases with
``fresh`` need a new process per sample. The work of a case in MB returns its figure itself.
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
# Makes a model's training step, which returns the loss, of the model's name and whether it is to be quick.
Trainer = Callable[[Subject, str, bool], Callable[[], Any]]


@dataclass(frozen=True)
class Target:
    """The project's target, an upper bound: a number of units, a factor of a peer's figure, or a difference from it."""

    limit: float
    of: str = ""  # a subject, or `BEST` of all the others; empty: none
    more: bool = False  # the peer's figure and so many units

    def __str__(self) -> str:
        if not self.of:
            return f"≤ {self.limit:g}"
        return f"≤ {self.of} + {self.limit:g}" if self.more else f"≤ {self.limit:g} × {self.of}"


BEST = "the best peer"


@dataclass(frozen=True)
class Spec:
    """How a case is measured and printed."""

    title: str
    unit: str  # us, ms, s or MB
    samples: int
    quick_samples: int
    targets: tuple[Target, ...] = ()
    fresh: bool = False
    warm: bool = False  # of programs that another process has left in the peer's cache on disk


_EAGER, _JAX = Target(1.0, "torch"), Target(1.0, "jax")

SPECS = {
    "import": Spec("import of the package", "s", 7, 1, (Target(0.4, "torch", more=True),), fresh=True),
    "first-step": Spec(
        "first training step of a GPT, from the model on the CPU to the loss", "s", 3, 1, (_JAX,), fresh=True
    ),
    "first-step-warm": Spec(
        "the same with its programs in the cache on disk", "s", 3, 1, (Target(0.5),), fresh=True, warm=True
    ),
    "trace-add": Spec("recording: x = x + 1 on 2x2, per op", "us", 15, 5, (Target(2.2), Target(0.2, "torch_xla"))),
    "trace-mixed": Spec("recording: eight different ops, per op", "us", 15, 5, (Target(0.35, "torch_xla"),)),
    "trace-inplace": Spec("recording: x.add_(1), per op", "us", 15, 5, (Target(0.1, "torch_xla"),)),
    "trace-view": Spec("recording: x[0].add_(1), per op of two", "us", 15, 5, (Target(0.15, "torch_xla"),)),
    "cached-10": Spec("step of 10 small ops, compiled before", "us", 15, 5, (Target(40),)),
    "cached-100": Spec("step of 100 small ops, compiled before", "us", 15, 5),
    "cached-1000": Spec("step of 1000 small ops, compiled before", "us", 11, 3, (Target(0.35, "torch_xla"),)),
    "compiled-10": Spec("step of 10 small ops under compile", "us", 15, 5),
    "compiled-100": Spec("step of 100 small ops under compile", "us", 15, 5),
    "compiled-1000": Spec("step of 1000 small ops under compile", "us", 11, 3, (_JAX,)),
    "mlp": Spec("training step of an MLP", "ms", 11, 3, (_EAGER,)),
    "mlp-compiled": Spec("training step of an MLP under compile", "ms", 11, 3, (Target(1.0, BEST),)),
    "gpt": Spec(
        "training step of a GPT, 8 x 128 words (quick: 2 x 32)", "ms", 7, 3, (Target(0.8, "torch_xla"), _EAGER)
    ),
    "gpt-compiled": Spec("training step of the GPT under compile", "ms", 7, 3),
    "resnet": Spec(
        "training step of a ResNet-18, 32 images (quick: 4)", "ms", 5, 2, (Target(0.7, "torch_xla"), _EAGER)
    ),
    "resnet-compiled": Spec("training step of the ResNet-18 under compile", "ms", 5, 2),
    "gpt-memory": Spec("peak of memory of a process that trains the GPT", "MB", 3, 1, (_EAGER,), fresh=True),
    "resnet-memory": Spec("peak of memory of a process that trains the ResNet-18", "MB", 3, 1, (_EAGER,), fresh=True),
    "save": Spec("saving 200 MB", "ms", 9, 3, (Target(1.1, "torch"),)),
    "save-memory": Spec(
        "peak of host memory while saving 200 MB, beyond what was used before", "MB", 5, 1, (Target(8),)
    ),
    "to-device": Spec("256 MB to the device", "ms", 11, 3, (_EAGER,)),
    "to-host": Spec("256 MB from the device", "ms", 11, 3, (_EAGER,)),
    "to-device-memory": Spec("peak of memory of 256 MB to the device, beyond the result", "MB", 5, 1, (Target(0),)),
    "to-host-memory": Spec("peak of memory of 256 MB from the device, beyond the result", "MB", 5, 1, (Target(0),)),
    "item": Spec(".item() of a computed value", "us", 15, 5, (Target(5),)),
    "scalar": Spec("torch.tensor(1.0) to the device", "us", 15, 5, (Target(5),)),
    "matmul": Spec("matrix product, 2048 x 2048 (quick: 1024)", "ms", 15, 5, (_EAGER,)),
    "fused": Spec("8 elementwise ops on 64 M numbers (quick: 8 M)", "ms", 9, 3, (_JAX,)),
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


def compiled(n: int) -> Case:
    """Return the case of a function of n ops that is compiled by name, pipelined."""

    def case(s: Subject, quick: bool) -> Sample:
        import torch

        def body(x: Any, scale: Any, shift: Any) -> Any:
            for _ in range(n // 2):
                x = x * scale
                x = x + shift
            return x

        step = s.compile(body)
        scale, shift = (torch.full((4,), v, device=s.device) for v in (1.0001, 0.5))
        steps = 30 if quick else 200

        def sample() -> None:
            x = torch.zeros(4, device=s.device)
            for _ in range(steps):
                x = step(x, scale, shift)
            s.wait(x)

        sample()
        return sample, steps

    return case


def _step(s: Subject, name: str, quick: bool, compile: bool = False) -> Callable[[], Any]:
    """Return a function that takes a training step and returns the loss."""
    import torch
    import torch.nn.functional as F

    from .models import TASKS

    torch.manual_seed(0)
    model, x, y, make = TASKS[name](quick)
    model.to(s.device)
    x, y = x.to(s.device), y.to(s.device)
    optimizer = make(model.parameters())
    forward = s.compile_module(model) if compile else model

    def step() -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(forward(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    if compile:
        return s.compile_step(step)

    def synced() -> Any:
        loss = step()
        s.sync()
        return loss

    return synced


def _compiled_step(s: Subject, name: str, quick: bool) -> Callable[[], Any]:
    return _step(s, name, quick, compile=True)


def _whole_step(s: Subject, name: str, quick: bool) -> Callable[[], Any]:
    """Return a step that is one program."""
    return _step(s, name, quick, compile=not s.lazy)


_STEPS = {"mlp": (100, 20), "gpt": (10, 3), "resnet": (4, 1)}  # of a sample, and of a quick one


def training(name: str, make: Trainer = _step) -> Case:
    """Return the case of training a model, pipelined."""

    def case(s: Subject, quick: bool) -> Sample:
        step = make(s, name, quick)
        n = _STEPS[name][quick]

        def sample(n: int = n) -> None:
            for _ in range(n):
                loss = step()
            s.wait(loss)

        sample(3)  # the first makes the optimizer's state
        return sample, n

    return case


def first_step(s: Subject, quick: bool) -> Sample:
    """Move a GPT to the device, take one step, read the loss."""
    import torch

    torch.optim.SGD([torch.zeros(1, requires_grad=True)])  # the first optimizer of a process imports torch._dynamo
    return lambda: _whole_step(s, "gpt", quick)().item(), 1


def training_memory(name: str, make: Trainer = _whole_step) -> Case:
    """Return the case of the resident memory of a process at its peak while it takes four steps."""

    def case(s: Subject, quick: bool) -> Sample:
        def sample() -> float:
            step = make(s, name, quick)
            for _ in range(4):
                step().item()
            return status("VmHWM")

        return sample, 1

    return case


def trained_by(make: Trainer) -> dict[str, Case]:
    """Return the cases of training by a peer's own means, one program a step."""

    def first_step(s: Subject, quick: bool) -> Sample:
        return lambda: make(s, "gpt", quick)().item(), 1

    return {
        **{f"{name}-compiled": training(name, make) for name in _STEPS},
        "first-step": first_step,
        "first-step-warm": first_step,
        "gpt-memory": training_memory("gpt", make),
        "resnet-memory": training_memory("resnet", make),
    }


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
    return lambda: _growth(work), 1


def _growth(work: Callable[[], Any]) -> float:
    """Return by how many bytes the resident memory is larger at its peak than before."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again
    before = status("VmRSS")
    result = work()
    del result
    return status("VmHWM") - before


def status(name: str) -> float:
    """Return a figure of this process in bytes, as /proc/self/status names it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024.0 for line in lines if line.startswith(name + ":"))


_LARGE = 64 << 20  # numbers of four bytes


def _sender(s: Subject) -> Callable[[], Any]:
    """Return a function that copies 64 M floats to the device."""
    import torch

    host = torch.randn(_LARGE)

    def send() -> Any:
        there = host.clone() if s.device == "cpu" else host.to(s.device)
        s.sync()
        s.wait(there)
        return there

    return send


def _receiver(s: Subject) -> Callable[[], Any]:
    """Return a function that copies 64 M floats from the device."""
    import torch

    there = torch.randn(_LARGE).to(s.device)
    s.sync()
    s.wait(there)
    return lambda: there.clone() if s.device == "cpu" else there.cpu()


def transfer(make: Callable[[Subject], Callable[[], Any]]) -> Case:
    """Return the case of a copy's time."""

    def case(s: Subject, quick: bool) -> Sample:
        work = make(s)

        def sample() -> None:
            work()

        return sample, 1

    return case


def transfer_memory(make: Callable[[Subject], Callable[[], Any]]) -> Case:
    """Return the case of the memory that a copy takes at its peak, beyond the result."""

    def case(s: Subject, quick: bool) -> Sample:
        work = make(s)
        work()
        return lambda: _growth(work) - 4 * _LARGE, 1

    return case


def item(s: Subject, quick: bool) -> Sample:
    """Read one number fifty times."""
    import torch

    x = torch.zeros(1, device=s.device)
    s.sync()
    s.wait()
    return lambda: [x.item() for _ in range(50)], 50


def scalar(s: Subject, quick: bool) -> Sample:
    """Make a number on the CPU and copy it to the device, two thousand times."""
    import torch

    def sample() -> None:
        for _ in range(2000):
            there = torch.tensor(1.0)
            there = there.clone() if s.device == "cpu" else there.to(s.device)

    return sample, 2000


def matmul(s: Subject, quick: bool) -> Sample:
    """Multiply two square matrices, of 2048 (1024 when quick)."""
    import torch

    size = 1024 if quick else 2048
    a, b = (torch.randn(size, size).to(s.device) for _ in range(2))

    multiply = _program(s, lambda a, b: a @ b)

    def sample() -> None:
        c = multiply(a, b)
        s.sync()
        s.wait(c)

    return sample, 1


def _program(s: Subject, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that computes by one program, where the subject has programs."""
    return function if s.lazy else s.compile(function)


def fused(s: Subject, quick: bool) -> Sample:
    """Run eight elementwise ops over 64 M floats (8 M when quick)."""
    import torch

    x = torch.rand((8 if quick else 64) << 20).to(s.device)
    compute = _program(s, lambda x: ((x * 1.5 + 0.5).relu() * x - 1).abs().sqrt() + x)

    def sample() -> None:
        y = compute(x)
        s.sync()
        s.wait(y)

    return sample, 1


CASES: dict[str, Case] = {
    "first-step": first_step,
    "first-step-warm": first_step,
    "trace-add": trace_add,
    "trace-mixed": trace_mixed,
    "trace-inplace": trace_inplace,
    "trace-view": trace_view,
    **{f"cached-{n}": cached(n) for n in (10, 100, 1000)},
    **{f"compiled-{n}": compiled(n) for n in (10, 100, 1000)},
    **{name: training(name) for name in _STEPS},
    **{f"{name}-compiled": training(name, _compiled_step) for name in _STEPS},
    "gpt-memory": training_memory("gpt"),
    "resnet-memory": training_memory("resnet"),
    "save": save,
    "save-memory": save_memory,
    "to-device": transfer(_sender),
    "to-host": transfer(_receiver),
    "to-device-memory": transfer_memory(_sender),
    "to-host-memory": transfer_memory(_receiver),
    "item": item,
    "scalar": scalar,
    "matmul": matmul,
    "fused": fused,
}
