"""Exported programs as StableHLO: they run here, from a bundle, and in a process without torch."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

import torch_go_xla  # noqa: F401 (makes the device)
from torch_go_xla.stablehlo import (
    StableHLOExportOptions,
    StableHLOGraphModule,
    exported_program_to_stablehlo,
    save_as_stablehlo,
    save_torch_model_as_stablehlo,
)


class Model(nn.Module):
    """Weights, a constant, buffers of which one is counted up, control flow, factories, a tree of results."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(4, 8), nn.BatchNorm1d(8)
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.table = torch.arange(8) * 0.5

    def forward(self, x: torch.Tensor, *, scale: torch.Tensor, flag: int | None = None) -> dict[str, object]:
        """Map [3, 4] to things of all kinds."""
        self.count += 1
        y = self.norm(self.linear(x)) * scale + self.table + torch.arange(8)
        y = torch.cond(y.sum() > 0, lambda y: y.sin() + torch.ones(8), lambda y: y.cos(), (y,))
        return {"half": y.to(torch.bfloat16), "pair": (x[:, 1:].t(), self.count * 1), "three": 3, "none": None}


@pytest.fixture
def exported():
    torch.manual_seed(0)
    model, x, scale = Model().eval(), torch.randn(3, 4), torch.tensor(2.0)
    return copy.deepcopy(model), torch.export.export(model, (x,), {"scale": scale}), x, scale


def same(got, want) -> None:
    torch.testing.assert_close(pytree.tree_map_only(torch.Tensor, lambda t: t.cpu(), got), want)


def test_it_computes_what_torch_computes(exported, tmp_path):
    model, program, x, scale = exported
    shlo = exported_program_to_stablehlo(program)
    assert "stablehlo.dot_general" in shlo.get_stablehlo_text() and '"stablehlo.if"' in shlo.get_stablehlo_text()
    again = copy.deepcopy(model)
    for _ in range(2):  # the second call sees what the first did to the buffer
        same(shlo(x, scale=scale), model(x, scale=scale))
        same(shlo(-x, scale=scale), model(-x, scale=scale))
    shlo.save(tmp_path)
    loaded = StableHLOGraphModule.load(tmp_path)
    same(loaded.evaluate("forward", (x.to("xla"),), {"scale": scale}), again(x, scale=scale))


def without_torch(program, folder):
    """Run a program on a bundle in a new process, which ends without a word."""
    file = Path(__file__).parent / "programs/stablehlo_export" / program
    done = subprocess.run([sys.executable, file, folder], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_process_without_torch_runs_it(exported, tmp_path):
    model, program, x, scale = exported
    save_as_stablehlo(program, tmp_path)
    np.save(tmp_path / "x.npy", x.numpy())
    without_torch("without_torch.py", tmp_path)
    with np.load(tmp_path / "out.npz") as got:
        for i, v in enumerate((x, -x)):
            want = model(v, scale=scale)
            np.testing.assert_allclose(got[f"arr_{i}"], want["half"].float().detach().numpy(), rtol=2**-7)
            np.testing.assert_array_equal(got[f"arr_{i + 2}"], want["pair"][0].numpy())


def test_models_of_torch(tmp_path):
    torch.manual_seed(0)
    model = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    x = torch.randn(2, 5, 16)
    save_torch_model_as_stablehlo(model, (x,), tmp_path)
    same(StableHLOGraphModule.load(tmp_path)(x), model(x))


def test_other_shapes_than_those_of_the_export():
    model = nn.Linear(4, 2)
    batch = torch.export.Dim("batch")
    program = torch.export.export(model, (torch.ones(3, 4),), dynamic_shapes=({0: batch},))
    with pytest.raises(NotImplementedError, match=r"dynamic sizes \(\w+\.shape\[0\]\).*override_tracing_arguments"):
        exported_program_to_stablehlo(program)
    x = torch.randn(5, 4)
    shlo = exported_program_to_stablehlo(program, StableHLOExportOptions(override_tracing_arguments=(x,)))
    same(shlo(x), model(x).detach())
    with pytest.raises(ValueError, match=r"expected a tensor float32\[5, 4\], got torch.float32\[3, 4\]"):
        shlo(x[:3])


def test_weights_can_stay_away(tmp_path):
    program = torch.export.export(nn.Linear(4, 2), (torch.ones(3, 4),))
    save_as_stablehlo(program, tmp_path, StableHLOExportOptions(save_weights=False))
    assert list((tmp_path / "data").iterdir()) == []
    names = [w["name"] for w in json.loads((tmp_path / "functions" / "forward.json").read_text())["weights"]]
    assert names == ["weight", "bias"]


class Writes(nn.Module):
    """Writes to a buffer and to its second and third inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(3, 2))

    def forward(self, x: torch.Tensor, state: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        """Store x in row 1 of the cache, add to the state, count."""
        self.cache[1] = x
        state.add_(x)[0] = 7
        count += 1
        return self.cache.sum(0) * state


def test_what_is_written_to(tmp_path):
    x, state, count = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), torch.zeros((), dtype=torch.int64)
    shlo = exported_program_to_stablehlo(torch.export.export(Writes(), (x, state.clone(), count.clone())))
    shlo.save(tmp_path)
    model, there = Writes(), (state.to("xla"), count.clone())
    for _ in range(2):
        same(shlo(x, *there), model(x, state, count))
        same(there, (state, count))
    without_torch("writes_without_torch.py", tmp_path)


def test_what_has_no_stablehlo():
    class Random(nn.Module):
        def forward(self, x):
            return x + torch.rand_like(x)

    with pytest.raises(NotImplementedError, match="draws random numbers: aten::uniform"):
        exported_program_to_stablehlo(torch.export.export(Random(), (torch.ones(2),)))


def test_a_damaged_bundle(tmp_path):
    import torch_go_xla_runtime

    save_torch_model_as_stablehlo(nn.Linear(4, 2), (torch.ones(3, 4),), tmp_path)
    (tmp_path / "data" / "weight").write_bytes(b"123")
    with pytest.raises(ValueError, match="has 3 bytes, its description says 32"):
        torch_go_xla_runtime.load(tmp_path)
    text = (tmp_path / "functions" / "forward.mlir").read_text()
    (tmp_path / "functions" / "forward.mlir").write_text(text[: len(text) // 2])
    with pytest.raises(RuntimeError, match="brackets of the program do not pair"):
        torch_go_xla_runtime.load(tmp_path)
