"""Changes fields, bytes and files of bundles, which then load as what they say or are refused.

Half of the changes go through all fields of ``forward.json``, each with all values; the others are drawn. A bundle that
loads must compute something of the types and shapes that its description says.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import ROOT, Counts, main
from ._children import Children, Journal, in_batches

BATCH = 400  # changes a child
PATIENCE = 60.0  # seconds that a child may take for one change
# What `torch_go_xla_runtime.load` and its program raise for a bundle that is not one.
REFUSALS = (ValueError, TypeError, OSError, RuntimeError)
NUMBERS = [-(1 << 63), -1, 0, 1, 2, 3, 7, 11, 15, 63, 64, 255, 1 << 31, 1 << 32, 1 << 63, 1 << 70, 1.5, True]
VALUES: list[Any] = [
    *NUMBERS,
    None,
    "",
    "..",
    "../x",
    "/etc/passwd",
    "a\0b",
    "x" * 300,
    "0.weight",
    "float64",
    [],
    {},
    [[]],
]
VALUES += [{"tuple": [0]}, {"constant": 1}, {"dict": {"a": 0}}, [1 << 40, 1 << 40], [3, 4], [8], [-1], "object"]


def places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the way to each field of a JSON value."""
    items: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    return [p for k, v in items for p in ((*way, k), *places(v, (*way, k)))]


def change_field(r: random.Random, bundle: Path, number: int) -> str:
    """Replace, remove or repeat a field of the description: the one that a number says."""
    path = bundle / "functions" / "forward.json"
    meta = json.loads(path.read_text())
    ways = places(meta)
    kinds: list[tuple[str, Any]] = [*(("set", value) for value in VALUES), ("remove", None), ("repeat", None)]
    *way, last = ways[number % len(ways)]
    kind, value = kinds[number // len(ways) % len(kinds)]
    at = meta
    for step in way:
        at = at[step]
    if kind == "set":
        at[last] = value
    elif kind == "remove":
        del at[last]
    elif isinstance(at, list):
        at.append(at[last])
    path.write_text(json.dumps(meta))
    return f"{kind} {(*way, last)} {value!r:.60}"


WORDS = [
    "custom_call",
    "tf.aliasing_output = 0 : i32",
    "tensor<?xf32>",
    "tensor<4294967296xf32>",
    "{",
    "}",
    '"',
    "\\",
    "%0",
    "@main",
]
WORDS += [
    "tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xf32>",
    "f64",
    "-1",
    "i1",
    "stablehlo.while",
    "9223372036854775807",
]


def change_program(r: random.Random, bundle: Path, number: int) -> str:
    """Change a word, a line or a byte of the program's text."""
    path = bundle / "functions" / "forward.mlir"
    text = path.read_text()
    at = r.randrange(len(text))
    kind = r.choice(["insert", "swap", "cut", "number", "type", "line"])
    if kind == "insert":
        text = text[:at] + r.choice(WORDS) + text[at:]
    elif kind == "swap":
        text = text[:at] + chr(r.randrange(1, 256)) + text[at + 1 :]
    elif kind == "cut":
        text = text[:at]
    elif kind == "number":
        digits = [i for i, c in enumerate(text) if c.isdigit()]
        i = r.choice(digits)
        text = text[:i] + str(r.choice([0, 1, 2, 9, 1 << 31])) + text[i + 1 :]
    elif kind == "type":
        text = text.replace("f32", r.choice(["f64", "i32", "i1", "bf16", "complex<f32>"]), r.randrange(1, 9))
    else:
        lines = text.splitlines(keepends=True)
        i, j = r.randrange(len(lines)), r.randrange(len(lines))
        lines[i], lines[j] = lines[j], lines[i]
        text = "".join(lines)
    path.write_text(text, errors="surrogateescape")
    return f"{kind} at {at}"


def change_file(r: random.Random, bundle: Path, number: int) -> str:
    """Make another file of one: shorter, longer, other bytes, a pipe, a link, a directory, none."""
    path = r.choice(sorted(p for p in bundle.rglob("*") if p.is_file()))
    kind = r.choice(["truncate", "bits", "pipe", "link", "device", "directory", "remove", "hole"])
    size = path.stat().st_size
    if kind == "truncate":
        os.truncate(path, r.randrange(size + 1))
    elif kind == "hole":
        os.truncate(path, r.choice([size + 1, 1 << 33]))
    elif kind == "bits":
        data = bytearray(path.read_bytes() or b"\0")
        for _ in range(r.choice([1, 8])):
            data[r.randrange(len(data))] ^= 1 << r.randrange(8)
        path.write_bytes(data)
    else:
        path.unlink()
        if kind == "pipe":
            os.mkfifo(path)
        elif kind in ("link", "device"):
            path.symlink_to("/dev/zero" if kind == "device" else "/etc/passwd")
        elif kind == "directory":
            path.mkdir()
    return f"{kind} {path.relative_to(bundle)}"


CHANGES: list[Callable[[random.Random, Path, int], str]] = [change_field, change_program, change_file]
# Models with their inputs: one that updates weights, one that writes to inputs and returns a structure.
MODELS = ("trained", "written")


def make(folder: Path) -> None:
    """Write the bundles that are changed."""
    import torch

    from torch_go_xla.stablehlo import save_torch_model_as_stablehlo

    class Written(torch.nn.Module):
        def forward(self, x: torch.Tensor, n: torch.Tensor) -> dict[str, Any]:
            x.add_(1)
            return {"a": (x.double().sort(1).values, n > 2), "b": [n.to(torch.bfloat16)], "c": "text"}

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8)).train()
    save_torch_model_as_stablehlo(model, (torch.ones(3, 4),), folder / "trained")
    save_torch_model_as_stablehlo(Written(), (torch.ones(3, 4), torch.arange(5)), folder / "written")


def child(journal: Journal, first: int, count: int, until: float, good: str) -> None:
    """Try changes, until a time of the monotonic clock."""
    import numpy as np

    import torch_go_xla_runtime

    def inputs(name: str) -> list[Any]:
        x = np.arange(12, dtype=np.float32).reshape(3, 4)
        return [x] if name == "trained" else [x, np.arange(5)]

    want = {name: flat(torch_go_xla_runtime.load(Path(good) / name)(*inputs(name))) for name in MODELS}
    for k in range(first, first + count):
        if time.monotonic() > until and k > first:
            return
        r = random.Random(k)
        name = MODELS[k % 2]
        change = change_field if k % 4 < 2 else r.choice(CHANGES)
        with tempfile.TemporaryDirectory() as folder:
            bundle = Path(shutil.copytree(Path(good) / name, Path(folder) / "bundle"))
            what = change(r, bundle, k // 4 * 7919)
            journal.begin(k, f"{name}: {what}")
            try:
                out = torch_go_xla_runtime.load(bundle)(*inputs(name))
            except REFUSALS:
                journal.end(k, f"refused: {change.__name__}")
            except Exception as e:
                journal.end(k, change.__name__, f"raises {e!r:.300}")
            else:
                meta = json.loads((bundle / "functions" / "forward.json").read_text())
                said = [o["shape"] for o in meta["outputs"] if o.get("updates") is None and o.get("writes") is None]
                found = [list(x.shape) for x in flat(out)]
                harm = "" if sorted(said) == sorted(found) else f"says {said}, returns {found}"
                journal.end(k, f"computed: {change.__name__}", harm)
        if k % 50 == 0:
            again = flat(torch_go_xla_runtime.load(Path(good) / name)(*inputs(name)))
            journal.begin(k, f"{name}: the unchanged one after others")
            same = len(again) == len(want[name]) and all(map(np.array_equal, again, want[name]))
            journal.end(k, "unchanged", "" if same else "has other values")


def flat(value: Any) -> list[Any]:
    """Return the arrays of a structure."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [x for v in value for x in flat(v)]
    return [value] if hasattr(value, "shape") else []


def run(seed: int, seconds: float, most: int) -> Counts:
    """Change bundles until the time is over."""
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        make_it = [sys.executable, "-W", "ignore", "-m", "tests.torture.bundles", "--make", folder]
        subprocess.run(make_it, check=True, cwd=ROOT)
        children = Children("tests.torture.bundles", PATIENCE)
        try:
            return in_batches(children, seed, seconds, most, BATCH, good=folder)
        finally:
            children.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--make"]:
        make(Path(sys.argv[2]))
    else:
        main(run)
