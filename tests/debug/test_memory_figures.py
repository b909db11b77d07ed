"""The figures of a device's memory, by all their names."""

import re

import pytest
import torch
import torch.nn.functional as F

import torch_go_xla
from torch_go_xla.debug import memory
from torch_go_xla.tiers import set_tier

MB = 2**20


@pytest.fixture(autouse=True)
def begin():
    torch_go_xla.sync(wait=True)
    torch.xla.reset_peak_memory_stats()
    torch.xla.reset_accumulated_memory_stats()


def test_an_array_is_counted_while_a_tensor_names_it():
    before = torch.xla.memory_allocated()
    x = torch.ones(MB // 4, device="xla") + 1
    torch_go_xla.sync(wait=True)
    assert torch.xla.memory_allocated() - before == MB
    y = x.view(2, -1)  # shares the storage
    del x
    assert torch.xla.memory_allocated() - before == MB
    del y
    torch_go_xla.sync(wait=True)
    assert torch.xla.memory_allocated() == before


def test_the_peak_has_what_a_program_computes_on_the_way():
    before = torch.xla.memory_allocated()
    x = torch.randn(512, 512, device="xla")
    torch_go_xla.sync(wait=True)
    torch.xla.reset_peak_memory_stats()
    y = ((x @ x).cos() @ (x @ x.T).cos()).cos().sum()  # two products of 1 MB at once
    torch_go_xla.sync(wait=True)
    assert torch.xla.max_memory_allocated() - before >= 3 * MB
    assert torch.xla.memory_allocated() - before == MB + 4
    torch.xla.reset_peak_memory_stats()
    assert torch.xla.max_memory_allocated() - before == MB + 4
    assert y.isfinite()


@pytest.mark.parametrize("tier", ["compile", "eager"])
def test_the_peak_has_a_result_that_is_gone(tier):
    x = torch.ones(MB // 4, device="xla") * 3
    torch_go_xla.sync(wait=True)
    before = torch.xla.memory_allocated()
    torch.xla.reset_peak_memory_stats()
    with set_tier(tier):
        y = x.abs()
        torch_go_xla.sync(wait=True)
        del y
        torch_go_xla.sync(wait=True)
    assert torch.xla.max_memory_allocated() - before == MB


@pytest.mark.parametrize(("tier", "beside"), [("compile", 0), ("eager", MB)])
def test_a_program_that_takes_its_argument_over_counts_it_once(tier, beside):
    """Op by op the result is computed beside the argument, and then moved there."""
    x = torch.ones(MB // 4, device="xla") * 3
    torch_go_xla.sync(wait=True)
    before = torch.xla.memory_allocated()
    torch.xla.reset_peak_memory_stats()
    with set_tier(tier):
        for _ in range(5):
            x += 1
            torch_go_xla.sync(wait=True)
    assert torch.xla.memory_allocated() == before
    assert 0 <= torch.xla.max_memory_allocated() - before - beside < 100  # numbers


def turned(x):
    """A reshape copies what it cannot see."""
    return x.t().reshape(-1).abs()


@pytest.mark.parametrize(
    ("graph", "megabytes"),
    [
        (lambda x: (x * 2).cos(), 2),
        (lambda x: (x * 2).cos() + (x * 3).cos(), 3),
        (lambda x: (x * 2).view(-1)[: MB // 8].cos(), 1.5),
        (lambda x: torch.rand(MB // 4, device="xla"), 2),  # with the zeros that it replaces
        (lambda x: torch.randperm(MB // 8, device="xla"), 3),  # keys, sorted ones and their places
        (lambda x: F.dropout(x, 0.5), 1.25),  # with the mask
        (lambda x: (x * 2).view(torch.int32).neg(), 3),  # with the copy whose bytes are seen as others
        (turned, 2),
        (lambda x: x.reshape(4, -1)[:, ::2].t().reshape(-1).abs(), 1),
        (lambda x: x.reshape(4, -1)[:, : MB // 32].reshape(2, 2, -1).abs(), 0.5),
        (lambda x: (x * 2).view(-1)[:1000], 1),  # a result is all of a storage
        (lambda x: (x * 2, x * 3, x.cos().sum()), 3),
    ],
    ids="chain sum view random permutation dropout type turned rows parts storage results".split(),
)
def test_the_peak_op_by_op(graph, megabytes):
    """It has the values on the way, each once."""
    x = torch.ones(512, 512, device="xla") * 3
    torch_go_xla.sync(wait=True)
    before = torch.xla.memory_allocated()
    torch.xla.reset_peak_memory_stats()
    with set_tier("eager"):
        kept = graph(x)
        torch_go_xla.sync(wait=True)
    difference = (torch.xla.max_memory_allocated() - before) / MB
    assert megabytes <= difference <= megabytes + 0.01, kept


def test_totals():
    before = torch.xla.memory_stats()
    for _ in range(3):
        x = torch.ones(MB // 4, device="xla") + 1
        torch_go_xla.sync(wait=True)
        del x
    torch_go_xla.sync(wait=True)
    now = torch.xla.memory_stats()
    for kind, each in (("allocated_bytes", MB), ("allocation", 1)):
        assert now[f"{kind}.all.allocated"] - before[f"{kind}.all.allocated"] >= 3 * each
        difference = now[f"{kind}.all.allocated"] - now[f"{kind}.all.freed"]
        assert difference == now[f"{kind}.all.current"] - before[f"{kind}.all.current"]


def test_torch_accelerator_has_the_same():
    x = torch.ones(1000, device="xla") + 1
    torch_go_xla.sync(wait=True)
    assert torch.accelerator.memory_allocated() == torch.xla.memory_allocated() > 0
    assert torch.accelerator.max_memory_allocated(0) == torch.xla.max_memory_allocated("xla:0")
    assert torch.accelerator.memory_reserved() == torch.xla.memory_reserved() > 0
    assert torch.accelerator.max_memory_reserved() == torch.xla.max_memory_reserved()
    assert torch.accelerator.memory_stats().keys() == torch.xla.memory_stats().keys()
    free, total = torch.accelerator.get_memory_info()
    assert 0 < free < total == torch.xla.memory_stats()["limit_bytes"]
    torch.accelerator.reset_peak_memory_stats()
    torch.accelerator.reset_accumulated_memory_stats()
    torch.accelerator.empty_cache()
    assert torch.accelerator.max_memory_allocated() == torch.xla.memory_allocated()
    assert x[0] == 2


def test_a_device_that_there_is_not():
    for ask in (torch.xla.memory_stats, torch.accelerator.memory_allocated, memory.of):
        with pytest.raises(RuntimeError, match="xla:7"):
            ask(7)


def test_the_largest_arrays_say_what_made_them():
    big = torch.ones(1000, 1000, device="xla") * 2.5
    alias = big.view(-1)
    torch_go_xla.sync(wait=True)
    now = memory.of(largest=3)
    assert now.largest[0].shape == "f32[1000,1000]" and now.largest[0].bytes == 4_000_000
    assert now.largest[0].op == "aten::mul.Scalar" or "mul" in now.largest[0].op
    assert "test_memory_figures.py" in now.largest[0].line
    assert [a.bytes for a in now.largest] == sorted((a.bytes for a in now.largest), reverse=True)
    assert "f32[1000,1000]" in str(now) and "3.8 MiB" in str(now)
    assert "f32[1000,1000]" in now._repr_html_() and now._repr_html_().count("<table>") == 2
    assert "f32[1000,1000]" in torch.xla.memory_summary()
    assert "f32" not in torch.xla.memory_summary(abbreviated=True)
    assert alias[0] == 2.5


def test_an_error_of_memory_names_the_largest_arrays():
    big = torch.ones(500, 1000, device="xla") * 2.5
    torch_go_xla.sync(wait=True)
    with pytest.raises(torch_go_xla.OutOfMemoryError) as raised:
        x = torch.zeros(2**40, device="xla") + 1
        torch_go_xla.sync(wait=True)
        x[0].item()
    notes = "\n".join(raised.value.__notes__)
    assert re.search(r"memory of xla:0\n", notes) and "f32[500,1000]" in notes
    assert big[0, 0] == 2.5
