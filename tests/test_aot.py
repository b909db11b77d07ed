"""`torch_go_xla.aot` with the CPU plugin, which compiles without a client as those of vendors do."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import torch_go_xla
from torch_go_xla import aot


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> Any:
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return {"loss": loss.detach(), "step": "done"}


def made() -> tuple[Any, ...]:
    """Return the arguments of a step that has run once."""
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).to("xla")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    given = model, optimizer, torch.randn(5, 8).to("xla"), torch.randn(5, 4).to("xla")
    train(*given)
    torch_go_xla.sync()
    return given


def values(given: tuple[Any, ...]) -> list[torch.Tensor]:
    return [p.detach().cpu().clone() for p in given[0].parameters()]


@pytest.mark.compiled
def test_step_is_compiled_saved_and_loaded(tmp_path: Path) -> None:
    """A step that was compiled for a topology does, loaded, what the step itself does."""
    compiled = aot.compile(train, made(), aot.topology("cpu"))
    memory, found = compiled.memory_analysis(), compiled.analysis()
    state = 2 * 4 * (8 * 16 + 16 + 16 * 4 + 4)  # parameters and momenta
    assert memory["Alias"] == state and memory["Argument"] >= state + 4 * 5 * (8 + 4)
    assert len(found["aliases"]) == 8 and not found["collectives"] and not found["host_transfers"]
    assert "torch" not in str(found["custom_calls"])
    assert "ENTRY" in compiled.as_text() and compiled.cost_analysis() == {}  # the plugin has none
    compiled.save(tmp_path / "step")

    loaded = aot.load(tmp_path / "step")
    here, there = made(), made()
    for _ in range(3):
        ours, theirs = train(*here), loaded(*there)
        assert theirs["step"] == "done"
        assert ours["loss"].item() == theirs["loss"].item()
        torch_go_xla.sync()
    assert all(torch.equal(a, b) for a, b in zip(values(here), values(there), strict=True))


def test_random_numbers_go_on(tmp_path: Path) -> None:
    """A loaded program draws from the device's generator, as many numbers as the function does."""

    def noise(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, 0.5) + torch.rand_like(x)

    x = torch.ones(64, device="xla")
    torch_go_xla.sync()
    aot.compile(noise, (x,), aot.topology("cpu")).save(tmp_path)
    torch_go_xla.sync()
    loaded = aot.load(tmp_path)
    results = []
    for each in (noise, loaded):
        torch_go_xla.manual_seed(7)
        results.append([each(x).cpu() for _ in range(3)])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
    assert not torch.equal(results[1][0], results[1][1])


def test_views_of_results(tmp_path: Path) -> None:
    def both(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2
        return y.t(), y[0], x.sum()

    x = torch.arange(6.0).view(2, 3).to("xla")
    aot.compile(both, (x,), aot.topology("cpu")).save(tmp_path)
    got = aot.load(tmp_path)(x + 1)
    for a, b in zip(got, both(x + 1), strict=True):
        assert a.shape == b.shape and torch.equal(a.cpu(), b.cpu())


def test_tensors_without_memory() -> None:
    """A model that has no memory is lowered by its shapes; its values are errors."""
    with torch.device("meta"):
        model = torch.nn.Linear(1 << 15, 1 << 15, bias=False)  # 4 GiB
    model = model.to_empty(device="xla")
    before = torch_go_xla.live_bytes()
    x = torch.empty(2, 1 << 15, device="xla")
    lowered = aot.lower(lambda m, x: m(x), model, x)
    assert torch_go_xla.live_bytes() == before
    assert "tensor<32768x32768xf32>" in lowered.as_text()
    assert lowered.compile(aot.topology("cpu")).memory_analysis()["Argument"] == 4 * ((1 << 30) + (1 << 16))


def test_topologies() -> None:
    top = aot.topology("CPU", devices=4)
    assert [d["id"] for d in top.devices] == [0, 1, 2, 3] and top.device_kind and "4" in repr(top)
    assert aot.get_topology_desc(platform="cpu").devices == aot.topology("cpu").devices
    with pytest.raises(ValueError, match="known are .*CPU"):
        aot.topology("abacus")
    with pytest.raises(ValueError, match="devices says how many"):
        aot.topology("cpu", "v5e:2x4")
    with pytest.raises(ValueError, match="says how many devices"):
        torch_go_xla.plugins.TpuPlugin().topology_options("v5e:2x4", 3)
    with pytest.raises(ValueError, match="known are a100, h100"):
        torch_go_xla.plugins.CudaPlugin().topology_options("abacus", 1)
    with pytest.raises(torch_go_xla.XlaError, match="PJRT_TopologyDescription_Create"):
        aot.topology("cpu", devices=-1)


def test_mistakes(tmp_path: Path) -> None:
    x, top = torch.ones(3, device="xla"), aot.topology("cpu")
    torch_go_xla.sync()
    with pytest.raises(RuntimeError, match="more than one program"):
        aot.lower(lambda x: (x + x).sum().item(), x)
    with pytest.raises(ValueError, match="nothing is recorded"):
        aot.lower(lambda x: x, x)
    y = torch.ones(3, device="xla") * 2
    compiled = aot.compile(lambda x: x * y, (x,), top)
    with pytest.raises(ValueError, match=r"reads a tensor f32\[3\] that is not among the arguments"):
        compiled.save(tmp_path / "closure")
    with pytest.raises(torch_go_xla.CompileError, match="no_such_flag"):
        aot.compile(lambda x: x * 3, (x,), top, {"xla_no_such_flag": True})
    with pytest.raises(TypeError, match="xla_list must be"):
        aot.compile(lambda x: x * 3, (x,), top, {"xla_list": [1]})


def test_loading_what_does_not_fit(tmp_path: Path) -> None:
    x = torch.ones(3, device="xla")
    aot.compile(lambda x: x * 3, (x,), aot.topology("cpu")).save(tmp_path)
    loaded = aot.load(tmp_path)
    with pytest.raises(ValueError, match="takes 1 tensors, there are 2"):
        loaded(x, torch.ones(3, device="xla"))
    with pytest.raises(ValueError, match="another type or shape"):
        loaded(torch.ones(4, device="xla"))
    description, executable = (tmp_path / "program").read_bytes().split(b"\n", 1)

    def damaged(change: Callable[[Any], None], executable: bytes = executable) -> None:
        bad = json.loads(description)
        change(bad)
        (tmp_path / "program").write_bytes(json.dumps(bad).encode() + b"\n" + executable)
        aot.load(tmp_path)

    with pytest.raises(RuntimeError, match=r"is for CUDA \(.*device 0 is CPU"):
        damaged(lambda m: m.update(platform="CUDA"))
    for field, value in [
        ("arrays", ["f32[3"]),
        ("parameters", [7]),
        ("donors", []),
        ("results", []),
        ("packs", ["f16"]),
    ]:
        with pytest.raises(ValueError, match="is damaged"):
            damaged(lambda m, field=field, value=value: m["program"].update({field: value}))
    with pytest.raises(torch_go_xla.XlaError, match="is not one for cpu"):
        damaged(lambda m: None, b"rubbish")


def test_a_save_that_fails_leaves_the_program_of_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x, top = torch.arange(3.0).to("xla"), aot.topology("cpu")
    double, triple = (aot.compile(lambda x, k=k: x * k, (x,), top) for k in (2, 3))
    double.save(tmp_path)
    for call in ("pwrite", "fsync", "replace"):
        with monkeypatch.context() as broken:

            def full(*_: object, **__: object) -> None:
                raise OSError(errno.ENOSPC, "the disk is full")

            broken.setattr(os, call, full)
            with pytest.raises(OSError, match="the disk is full"):
                triple.save(tmp_path)
        assert [p.name for p in tmp_path.iterdir()] == ["program"]
        assert aot.load(tmp_path)(x).tolist() == [0, 2, 4]
    triple.save(tmp_path)
    assert aot.load(tmp_path)(x).tolist() == [0, 3, 6]


def test_partitioned(ok: Callable[..., str]) -> None:
    """With SPMD a program is compiled for as many devices as there are here, and loaded on them."""
    print(ok("aot/partitioned.py", CPU_NUM_DEVICES="4"))
