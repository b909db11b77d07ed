"""Calls every public function, and every overload that the table of ops names, with wrong arguments.

Children write down each call before they make it. A death by a signal, or a hang, is the fault of that call. Half of
the calls go through all functions and overloads in turn. What a call raises is not judged, only that it returns.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import pkgutil
import random
import resource
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.programs.process_memory import mapped

from . import Counts, main
from ._children import Children, Journal, in_batches

BATCH = 250  # calls a child
PATIENCE = 60.0  # seconds that one call may take
ROOM = 6 << 30  # bytes of address space that calls may ask for beyond what the child has: as on a smaller machine
INTS = [0, 1, -1, 2, 3, 7, 64, 255, 256, 1 << 16, (1 << 31) - 1, 1 << 31, -(1 << 31), 1 << 32, 1 << 70]
INTS += [(1 << 63) - 1, -(1 << 63)]
FLOATS = [0.0, -1.0, 0.5, float("nan"), float("inf"), -float("inf"), 1e38]
TEXTS = ["", "mean", "sum", "none", "xla", "cpu", "xla:99", "\0", "é" * 300, "constant", "aten::add"]
# Functions that end or stop the process, wait for other processes, or run what they are given.
LEFT_OUT = {"launch", "spawn", "exit", "run", "wait", "install", "start_server", "main", "xla_multiprocessing"}
LEFT_OUT |= {"_mp_fn", "serve", "trace", "wait_device_ops"}


def tensors() -> list[Any]:
    """Return tensors of odd shapes, types and devices."""
    import torch

    found: list[Any] = []
    for device in ("xla", "cpu"):
        for shape in ((), (0,), (1,), (3,), (2, 3), (2, 3, 4, 5), (1, 0, 2), (1,) * 20, (3, 3), (2, 3, 3)):
            for dtype in (torch.float32, torch.int64, torch.bool, torch.complex64, torch.bfloat16, torch.uint8):
                found.append(torch.ones(shape, dtype=dtype, device=device))
        found += [torch.full((3,), v, device=device) for v in (-1, 1 << 40, -(1 << 63))]
        found += [torch.full((2, 3), v, device=device) for v in FLOATS]
        found.append(torch.ones(3, device=device).expand(1 << 31, 3))
    return found


class Picker:
    """Chooses arguments."""

    def __init__(self, r: random.Random) -> None:
        """Remember the generator."""
        import torch

        self.r, self.tensors = r, tensors()
        self._here = [t for t in self.tensors if t.device.type == "xla"]
        self.dtypes = [torch.float32, torch.int8, torch.float64, torch.quint8, torch.complex128, torch.bool]
        self.formats = [torch.contiguous_format, torch.channels_last, torch.preserve_format, torch.channels_last_3d]

    def anything(self, depth: int = 0) -> Any:
        """Return a value of any type."""
        r = self.r
        kinds = ["int", "float", "text", "none", "bool", "tensor", "tensor", "tensor", "dtype", "format", "object"]
        kind = r.choice([*kinds, *(["list", "list", "dict"] if depth < 2 else [])])
        if kind in ("list", "dict"):
            values = [self.anything(depth + 1) for _ in range(r.choice([0, 1, 2, 3, 9]))]
            return values if kind == "list" else {str(i): v for i, v in enumerate(values)}
        return self.of(kind)

    def on_device(self) -> Any:
        """Return a tensor of the device."""
        return self.r.choice(self._here)

    def of(self, kind: str) -> Any:
        """Return a value of a kind."""
        r = self.r
        return {
            "int": lambda: r.choice(INTS),
            "float": lambda: r.choice(FLOATS),
            "text": lambda: r.choice(TEXTS),
            "none": lambda: None,
            "bool": lambda: r.random() < 0.5,
            "tensor": lambda: r.choice(self._here if r.random() < 0.9 else self.tensors),
            "dtype": lambda: r.choice(self.dtypes),
            "format": lambda: r.choice([*self.formats, 4, 7, 99, -1, 1 << 40]),
            "object": lambda: r.choice([object(), int, Picker, b"", 1j, range(3), ...]),
        }[kind]()

    def for_schema(self, kind: str, name: str) -> Any:
        """Return a value that a schema's type lets through, mostly."""
        r = self.r
        if r.random() < 0.05:
            return self.anything()
        if kind.startswith("Optional["):
            return None if r.random() < 0.4 else self.for_schema(kind[9:-1], name)
        if kind.startswith("List["):
            n = r.choice([0, 1, 2, 2, 3, 4, 70])
            return [self.for_schema(kind[5:-1], name) for _ in range(n)]
        if name == "memory_format":
            return self.of("format")
        if name == "dtype" or kind == "ScalarType":
            return self.of("dtype") if r.random() < 0.8 else r.choice(INTS)
        small = r.choice([0, 1, -1, 2, 3]) if r.random() < 0.6 else r.choice(INTS)
        known = {"Tensor": "tensor", "float": "float", "bool": "bool", "str": "text"}
        if kind == "number":
            return r.choice([*INTS, *FLOATS, True, 1j])
        return small if kind == "int" else self.of(known.get(kind, "object"))


def overloads() -> list[Any]:
    """Return the overloads of the table of ops, and those by which torch reaches them."""
    import torch

    from torch_go_xla._core import core

    names = {row["name"].partition(".")[0].removeprefix("aten::") for row in core.op_table()}
    found = []
    for name in sorted(names):
        packet = getattr(torch.ops.aten, name, None)
        for overload in packet.overloads() if hasattr(packet, "overloads") else []:
            found.append(getattr(packet, overload))
    return [*found, torch.ops.aten.to.other, torch.ops.aten.to.dtype, torch.ops.aten.mvlgamma.default]


def functions() -> list[Callable[..., Any]]:
    """Return the public functions and classes of the package's modules."""
    import torch_go_xla

    found: dict[str, Callable[..., Any]] = {}
    for module in pkgutil.walk_packages(torch_go_xla.__path__, "torch_go_xla."):
        if any(part.startswith("_") or part in ("as_torch_xla", "doctor") for part in module.name.split(".")[1:]):
            continue
        with contextlib.suppress(Exception):
            loaded = importlib.import_module(module.name)
            for name in getattr(loaded, "__all__", ()):
                f = getattr(loaded, name)
                if callable(f) and (getattr(f, "__module__", "") or "").startswith("torch_go_xla"):
                    found[f"{f.__module__}.{f.__qualname__}"] = f
    return [found[name] for name in sorted(found) if name.rpartition(".")[2] not in LEFT_OUT]


def call(k: int, picker: Picker, ops: list[Any], public: list[Callable[..., Any]]) -> Iterator[Any]:
    """Yield a call's text and kind, then make the call and read what it gives."""
    import torch

    r = picker.r
    kwargs: dict[str, Any] = {}
    if k % 4 < 3:
        f = ops[k // 8 * 3 % len(ops)] if k % 2 else r.choice(ops)
        arguments = [(a, picker.for_schema(str(a.type), a.name)) for a in f._schema.arguments]
        args = [v for a, v in arguments if not a.kwarg_only]
        kwargs = {a.name: v for a, v in arguments if a.kwarg_only and (not a.has_default_value() or r.random() < 0.5)}
        if "device" in {a.name for a, _ in arguments if a.kwarg_only}:
            kwargs["device"] = "xla"
        elif not any(isinstance(x, torch.Tensor) and x.device.type == "xla" for x in args):
            for i, x in enumerate(args):  # what has no tensor of the device is torch's own affair
                if isinstance(x, torch.Tensor):
                    args[i] = picker.on_device()
                    break
        name, kind = str(f), "overload"
    else:
        f = public[k // 8 % len(public)] if k % 8 == 3 else r.choice(public)
        args, kind = [picker.anything() for _ in range(arity(r, f))], "function"
        name = f"{f.__module__}.{f.__qualname__}"

    def brief(x: Any) -> str:
        if isinstance(x, torch.Tensor):
            return f"{x.device.type}:{x.dtype}{list(x.shape)}"[:60]
        if isinstance(x, list):
            return f"[{', '.join(map(brief, x))}]"[:200]
        return f"{ {k: brief(v) for k, v in x.items()} }" if isinstance(x, dict) else f"{x!r:.60}"

    shown = map(brief, args)
    yield f"{name}({', '.join(shown)}, { ({k: brief(v) for k, v in kwargs.items()}) })", kind
    out = f(*args, **kwargs)
    for x in out if isinstance(out, tuple | list) else [out]:
        if isinstance(x, torch.Tensor) and x.numel() < 1 << 24:
            x.cpu()


def arity(r: random.Random, f: Callable[..., Any]) -> int:
    """Return a number of arguments, most often one that a function takes."""
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        parameters = ()
    least = sum(p.kind <= p.POSITIONAL_OR_KEYWORD and p.default is p.empty for p in parameters)
    most = sum(p.kind <= p.POSITIONAL_OR_KEYWORD for p in parameters)
    return r.randint(least, most) if r.random() < 0.8 else r.choice([0, 1, 2, 3, 4])


def child(journal: Journal, first: int, count: int, until: float) -> None:
    """Make calls, until a time of the monotonic clock."""
    import torch

    import torch_go_xla

    one = torch.ones(3, device="xla")
    torch_go_xla.sync(wait=True)
    ops, public = overloads(), functions()
    picker = Picker(random.Random(0))
    size = mapped()
    resource.setrlimit(resource.RLIMIT_AS, (size + ROOM, size + ROOM))
    shuffled = random.Random(first // 1_000_000)
    shuffled.shuffle(ops)
    shuffled.shuffle(public)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for k in range(first, first + count):
            if time.monotonic() > until and k > first:
                break
            picker.r = random.Random(k)
            made = call(k, picker, ops, public)
            text, kind = next(made)
            journal.begin(k, text)
            try:
                next(made, None)
                journal.end(k, f"{kind}: returns")
            except (Exception, SystemExit):
                journal.end(k, f"{kind}: raises")
        os.chdir("/")
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    journal.begin(first, "the program after all calls")
    right = (one + 1).tolist() == [2, 2, 2]
    journal.end(first, "afterwards", "" if right else "has wrong values")


def run(seed: int, seconds: float, most: int) -> Counts:
    """Make calls until the time is over."""
    children = Children("tests.torture.arguments", PATIENCE)
    try:
        return in_batches(children, seed, seconds, most, BATCH)
    finally:
        children.close()


if __name__ == "__main__":
    main(run)
