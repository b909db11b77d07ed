"""A step over four devices, compiled for a topology of four, saved and loaded."""

import tempfile
from typing import Any

import numpy as np
import torch

import torch_go_xla
from torch_go_xla import aot, runtime
from torch_go_xla.distributed import spmd

runtime.use_spmd()
mesh = spmd.Mesh(np.arange(4), (4,), ("data",))


def made() -> tuple[Any, ...]:
    torch.manual_seed(1)
    w, x = torch.randn(8, 4).to("xla"), torch.randn(12, 8).to("xla")
    spmd.mark_sharding(x, mesh, ("data", None))
    torch_go_xla.sync()
    return w, x


def step(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    y = x @ w
    w += x.t() @ y
    return y.sum()


top = aot.topology("cpu", devices=4)
compiled = aot.compile(step, made(), top)
found = compiled.analysis()
assert "all-reduce" in {c["kind"] for c in found["collectives"]}, found
assert compiled.memory_analysis()["Argument"] == 4 * (8 * 4 + 12 * 8 // 4)
with tempfile.TemporaryDirectory() as folder:
    compiled.save(folder)
    loaded = aot.load(folder)
here, there = made(), made()
for _ in range(2):
    a, b = step(*here), loaded(*there)
    assert a.item() == b.item(), (a, b)
    torch_go_xla.sync()
assert torch.equal(here[0].cpu(), there[0].cpu())
try:
    aot.compile(step, made(), aot.topology("cpu"))
except ValueError as e:
    print(e)
else:
    raise AssertionError("a program of four partitions on one device")
