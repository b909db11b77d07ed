"""What the names of torch_xla do, where no other test is about them."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
import torch

import torch_go_xla
import torch_go_xla.core.xla_model as xm
import torch_go_xla.debug.metrics as met
import torch_go_xla.runtime as xr
from torch_go_xla import _XLAC


def state(x: torch.Tensor) -> str:
    return str(_XLAC._describe(x)["state"])


@pytest.mark.parametrize(
    "end",
    [
        torch_go_xla.sync,
        xm.mark_step,
        lambda: _XLAC._xla_step_marker("xla:0", []),
        lambda: _XLAC._xla_step_marker("", [], wait=False),
    ],
    ids=["sync", "mark_step", "of a device", "of all devices"],
)
def test_the_end_of_a_step(end: Callable[[], None]) -> None:
    x = torch.ones(2, device="xla") * 3
    assert state(x) == "pending"
    end()
    xm.wait_device_ops()
    assert state(x) == "device" and x.tolist() == [3, 3]


def test_a_step_as_a_block() -> None:
    before = torch.ones(2, device="xla") + 1
    with torch_go_xla.step():
        assert state(before) == "device"
        within = before + 1
        assert state(within) == "pending"
    assert state(within) == "device"
    with pytest.raises(ZeroDivisionError), torch_go_xla.step():
        within.add_(1)
        raise ZeroDivisionError
    assert state(within) == "device" and within.tolist() == [4, 4]


@pytest.mark.parametrize("compute", [xm.unlazy, _XLAC._xla_sync_multi], ids=["unlazy", "_xla_sync_multi"])
def test_some_tensors_are_computed_and_others_stay(compute: Callable[[list[torch.Tensor]], None]) -> None:
    x = torch.ones(2, device="xla")
    some, other = x + 1, x * 5
    compute([some])
    assert (state(some), state(other)) == ("device", "pending")
    assert some.tolist() == [2, 2] and other.tolist() == [5, 5]


def test_waiting_for_devices() -> None:
    x = torch.ones(3, device="xla") + 1
    torch_go_xla.sync()
    for wait in (xm.wait_device_ops, _XLAC._xla_wait_device_ops):
        wait()
        wait(["xla:0"])
        with pytest.raises(RuntimeError, match="xla:9"):
            wait(["xla:9"])
    assert x.tolist() == [2, 2, 2]


def test_graphs_as_text() -> None:
    x = torch.ones(2, 3, device="xla")
    torch_go_xla.sync()
    y = (x + 1).sum(1)
    assert "aten::sum" in _XLAC._get_xla_tensors_text([y])
    for text in (_XLAC._get_xla_tensors_hlo([y]), _XLAC._get_stablehlo([y]), xm.get_stablehlo([y])):
        assert "stablehlo.reduce" in text and "tensor<2x3xf32>" in text and "-> tensor<2xf32>" in text.replace("(", "")
    assert state(y) == "pending", "a look computes nothing"


def test_seeds() -> None:
    def draw() -> list[float]:
        return torch.rand(4, device="xla").tolist()

    torch_go_xla.manual_seed(7)
    first = draw()
    assert draw() != first
    torch_go_xla.manual_seed(7, device="xla:0")
    assert draw() == first
    xm.set_rng_state(7)
    assert xm.get_rng_state() == xm.get_rng_state("xla:0") == 7
    assert draw() == first


def test_one_process() -> None:
    assert xr.device_type() == "CPU"
    assert xr.global_runtime_device_count() == torch_go_xla.device_count() == 1
    assert (xr.world_size(), xr.global_ordinal()) == (1, 0)
    assert xm.is_master_ordinal() and xm.is_master_ordinal(local=False)
    file = io.StringIO()
    xm.master_print("a", 1, fd=file, flush=True)
    assert file.getvalue() == "a 1\n"


def test_an_optimizer_steps_and_ends_the_step() -> None:
    p = torch.nn.Parameter(torch.ones(2, device="xla"))
    optimizer = torch.optim.SGD([p], lr=0.5)
    p.sum().backward()
    assert xm.optimizer_step(optimizer, barrier=True) is None
    assert state(p.detach()) == "device" and p.tolist() == [0.5, 0.5]
    p.grad = None
    loss = xm.optimizer_step(optimizer, optimizer_args={"closure": lambda: 3})
    assert loss == 3


def test_memory_info() -> None:
    x = torch.ones(1 << 20, device="xla")
    torch_go_xla.sync(wait=True)
    info = xm.get_memory_info("xla:0")
    assert info == _XLAC._xla_memory_info("xla:0") or info["bytes_used"] > 0
    assert info["bytes_used"] >= x.nbytes and info["peak_bytes_used"] >= info["bytes_used"]


def test_metrics() -> None:
    torch_go_xla.sync(wait=True)
    met.clear_all()
    assert met.counter_names() == [] and met.counter_value("MarkStep") is None
    assert met.metric_names() == [] and met.metric_data("ExecuteTime") is None
    x = torch.rand(5, 7, device="xla")
    xm.mark_step(wait=True)
    assert "MarkStep" in met.counter_names() and met.counter_value("MarkStep") == 1
    assert "ExecuteTime" in met.metric_names()
    data = met.metric_data("ExecuteTime")
    assert data is not None
    count, total, samples = data
    assert count == len(samples) == 1 and total == sum(value for _, value in samples) > 0
    assert "Metric: ExecuteTime\n  TotalSamples: 1\n" in met.metrics_report()
    assert met.short_metrics_report(["MarkStep"], []) == "Counter: MarkStep\n  Value: 1\n"
    assert met.executed_fallback_ops() == []
    met.clear_counters()
    assert met.counter_names() == [] and met.metric_names() != []
    met.clear_metrics()
    assert met.metric_names() == []
    del x


@pytest.mark.compiled
def test_a_cache_of_programs(ok, tmp_path) -> None:
    out = ok("xla_model/program_cache.py", tmp_path)
    assert "before the first xla tensor" in out
    assert list(tmp_path.iterdir()), "no program was kept"


def test_submodules_are_there_without_an_import(ok) -> None:
    names = "debug.graph.of", "debug.profiler.trace", "debug.compilations.explain", "utils.serialization.save"
    names += (
        "utils.safetensors.save_file",
        "experimental.distributed_checkpoint.CheckpointManager",
        "distributed.spmd.Mesh",
    )
    names += "core.xla_model.save", "stablehlo.save_as_stablehlo"
    ok("import torch_go_xla\n" + "\n".join(f"torch_go_xla.{name}" for name in names))
    for package in (torch_go_xla, torch_go_xla.debug):
        with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
            _ = package.nothing


def test_data_is_sent_as_lists() -> None:
    (alone,) = xm.send_cpu_data_to_device(torch.ones(2), "xla")
    assert alone.device.type == "xla" and alone.tolist() == [1, 1]
    nested = xm.send_cpu_data_to_device([torch.ones(1), {"y": torch.zeros(1)}, "text"], xm.xla_device())
    assert nested[1]["y"].device.type == "xla" and nested[2] == "text"


def test_the_size_of_a_graph_has_torch_xlas_name() -> None:
    met.clear_metrics()
    (torch.ones(3, 19, device="xla") @ torch.ones(19, 23, device="xla")).exp().sum().item()
    assert (met.metric_data("TensorsGraphSize") or (0,))[0] == 1
