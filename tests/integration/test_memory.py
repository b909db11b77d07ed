"""Memory: nothing outlives its last object, and a training loop holds what its first steps held."""

from __future__ import annotations

import gc
import resource
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import torch_go_xla
import torch_go_xla.core.xla_model as xm
import torch_go_xla.debug.metrics as met
from torch_go_xla._core import core


def held() -> tuple[int, int, int]:
    """Return the bytes, the storages and the device buffers that are alive, once all that runs is done."""
    torch_go_xla.sync(wait=True)
    gc.collect()
    size = torch_go_xla.live_bytes()
    return size, core.live_storages(), core.live_buffers()


def arithmetic() -> None:
    """Compute, read, leave some of it recorded."""
    x = torch.arange(12.0, device="xla").view(3, 4)
    y = (x @ x.t()).relu()
    assert y.sum().item() > 0
    y.add_(x.sum())
    (y * 2).t()


def views() -> None:
    """Write through aliases."""
    x = torch.zeros(4, 4, device="xla")
    rows = list(x.unbind(0))
    for row in rows:
        row.add_(1)
    torch_go_xla.sync()
    rows[0].t_() if rows[0].dim() > 1 else rows[0].mul_(3)
    assert x.sum().item() == 24


def training() -> None:
    """Train with state in the optimizer, and gradients that live as long as the model."""
    model = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Linear(6, 2)).to("xla")
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        F.mse_loss(model(torch.randn(4, 6, device="xla")), torch.zeros(4, 2, device="xla")).backward()
        optimizer.step()
        xm.mark_step()


def saving() -> None:
    """Save to memory."""
    import io

    xm.save({"a": torch.ones(5, device="xla") + 1}, io.BytesIO())


def errors() -> None:
    """Fail at a call, and read a buffer that was given away."""
    x = torch.ones(3, device="xla")
    with pytest.raises(RuntimeError):
        x @ torch.ones(4, device="xla")
    torch_go_xla._XLAC._set_buffer_donation(x, True)
    y = x + 1
    torch_go_xla.sync(wait=True)
    with pytest.raises(torch_go_xla.DonatedBufferError):
        x.cpu()
    assert y.tolist() == [2, 2, 2]


def fallback() -> None:
    """Run an op without a lowering on the CPU."""
    x = torch.eye(3, device="xla")
    assert torch.linalg.eigvals(x).sum().real.item() == pytest.approx(3)


@pytest.mark.longer
@pytest.mark.parametrize("use", [arithmetic, views, training, saving, errors, fallback], ids=lambda f: f.__name__)
def test_nothing_outlives_its_last_object(use: Callable[[], None]) -> None:
    torch.ones(1, device="xla").item()
    before = held()
    use()
    assert held() == before


def test_nothing_is_left_in_a_new_process(ok) -> None:
    ok("memory/nothing_is_left_in_a_new_process.py")


def test_live_bytes_are_those_of_the_shapes() -> None:
    before = held()[0]
    a, b = torch.zeros(100, device="xla"), torch.zeros(7, dtype=torch.int64, device="xla")
    view = a[10:].view(9, 10)
    assert held()[0] - before == 456
    del a
    assert held()[0] - before == 456, "a view holds its storage"
    del view, b
    assert held()[0] == before


def test_a_dropped_graph_is_not_computed() -> None:
    """What no one can read any more is freed without a compilation."""
    x = torch.ones(3, device="xla")
    before, programs = held(), core.cached_programs()
    y = (x * 3).exp() @ torch.ones(3, 5, device="xla")
    del y
    assert held() == before
    assert core.cached_programs() == programs


@pytest.mark.longer
def test_a_long_loop_holds_what_a_short_one_holds() -> None:
    model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 3)).to("xla")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x, y = torch.randn(8, 12).to("xla"), torch.randint(0, 3, (8,)).to("xla")
    total = torch.zeros((), device="xla")

    def steps(n: int) -> tuple[int, ...]:
        for _ in range(n):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            total.add_(loss.detach())
            torch_go_xla.sync()
        del loss
        optimizer.zero_grad()
        return (*held(), core.cached_programs())

    first = steps(10)
    assert steps(290) == first
    assert torch.isfinite(total).item()


@pytest.mark.compiled
def test_large_results_reach_the_host_in_huge_pages() -> None:
    setting = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not setting.exists() or "[never]" in setting.read_text():
        pytest.skip("the system has no huge pages to give")
    x = torch.ones(64 << 20, dtype=torch.uint8, device="xla")
    xm.wait_device_ops()
    for read in (x.cpu, x[:].cpu, lambda: torch.empty(64 << 20, dtype=torch.uint8).copy_(x)):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        host = read()
        assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < (64 << 20) // resource.getpagesize() // 2
        assert host.min() == 1
        del host


def test_the_memory_of_the_client_is_in_the_metrics() -> None:
    (torch.ones(3, device="xla") + 1).tolist()
    held = met.client_memory()
    assert held["call arguments"][0] > 0 and held["call arguments"][1] > 0
    assert all(f"ClientMemory: {purpose}\n" in met.metrics_report() for purpose in held)


def test_the_peak_of_an_adam_step(ok) -> None:
    """With donation new parameters and states lie where the old ones lay; without, beside them."""
    peaks = {}
    for donate in "10":
        needed, peak = map(int, ok("memory/adam.py", XLA_ENABLE_PARAM_ALIASING=donate).split())
        peaks[donate] = peak / needed
    print(f"peak of an Adam step by what it needs: {peaks['1']:.3f} with donation, {peaks['0']:.3f} without")
    assert peaks["1"] <= 1.05
    assert peaks["0"] > 1.3


@pytest.mark.compiled
@pytest.mark.slow
def test_a_long_compilation_leaves_little_of_the_compiler_in_memory(ok) -> None:
    """The compiler's code and tables stay in the page cache, not in the process: 100 MB or more."""
    milliseconds, resident = map(int, ok("memory/compiled.py").split())
    print(f"compiled for {milliseconds} ms; {resident} kB of the library are resident")
    assert milliseconds > 1000, "too short to be cleaned up after"
    assert resident < 64 << 10


def test_the_import_takes_little(ok) -> None:
    """The device and its plugin come with the first tensor."""
    alone, both = (int(ok("memory/resident.py", *modules)) for modules in (["torch"], ["torch", "torch_go_xla"]))
    assert both - alone <= 60_000, f"{both - alone} kB more than torch alone"
