"""TORCH_GO_XLA_CHECK: an index out of range raises the error that torch raises on the CPU, with the op and its line."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F

import torch_go_xla
from torch_go_xla._core import core

Op = Callable[[torch.Tensor, torch.Tensor], object]  # of a 3 × 4 table and 3 indices

OPS: dict[str, Op] = {
    "index": lambda x, i: x[i],
    "index of a column": lambda x, i: x[:, i],
    "index of places": lambda x, i: x[torch.zeros_like(i), i],
    "index, 32 bits": lambda x, i: x[i.int()],
    "index_put": lambda x, i: x.index_put((i,), x[0, 0]),
    "index_put, added": lambda x, i: x.index_put((i,), x[0, 0], accumulate=True),
    "setitem": lambda x, i: x.clone().__setitem__(i, 1.0),
    "gather": lambda x, i: x.gather(1, i[:, None]),
    "gather of dimension -2": lambda x, i: x.gather(-2, i[:, None]),
    "scatter": lambda x, i: x.scatter(0, i[None], x),
    "scatter of a value": lambda x, i: x.scatter(0, i[None], 1.0),
    "scatter, reduced": lambda x, i: x.scatter(0, i[None], x, reduce="add"),
    "scatter of a value, reduced": lambda x, i: x.scatter(0, i[None], 1.0, reduce="add"),
    "scatter_add": lambda x, i: x.scatter_add(0, i[None], x),
    "scatter_add_": lambda x, i: x.clone().scatter_add_(0, i[None], x),
    "scatter_reduce": lambda x, i: x.scatter_reduce(0, i[None], x, "amax"),
    "index_add": lambda x, i: x.index_add(1, i, x[:, :3]),
    "index_add of a vector": lambda x, i: x[0].index_add(0, i, x[0, :3]),
    "index_copy": lambda x, i: x.index_copy(0, i, x),
    "index_fill": lambda x, i: x.index_fill(0, i, 1.0),
    "index_fill of a tensor": lambda x, i: x.index_fill(0, i, x[0, 0]),
    "index_reduce": lambda x, i: x.index_reduce(0, i, x, "amax"),
    "index_select": lambda x, i: x.index_select(0, i),
    "take": lambda x, i: x.take(i * 4),
    "put": lambda x, i: x.clone().put(i * 4, x[:, 0]),
    "embedding": lambda x, i: F.embedding(i, x),
    "embedding with a bound of the norm": lambda x, i: F.embedding(i, x.clone(), max_norm=1.0),
    "embedding_bag": lambda x, i: F.embedding_bag(i, x, torch.zeros_like(i[:1])),
    "embedding_bag, largest": lambda x, i: F.embedding_bag(i, x, torch.zeros_like(i[:1]), mode="max"),
    "nll_loss": lambda x, i: F.nll_loss(x, i),
    "nll_loss of planes": lambda x, i: F.nll_loss(x.T[None, :, None], i[None, None]),
    "cross_entropy": lambda x, i: F.cross_entropy(x, i),
    "cross_entropy, smoothed": lambda x, i: F.cross_entropy(x, i, label_smoothing=0.1),
    "multi_margin_loss": lambda x, i: F.multi_margin_loss(x, i),
    "multilabel_margin_loss": lambda x, i: F.multilabel_margin_loss(x[:, :3], i.expand(3, 3)),
    "max_unpool2d": lambda x, i: F.max_unpool2d(x[None, :1, :3, None], i[None, None, :, None], (1, 1), None, 0, (3, 1)),
}


def run_python(text: str, **environment: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)], env=os.environ | environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def switch(value: str) -> str:
    core.open()
    before = core.setting("TORCH_GO_XLA_CHECK")
    core.configure("TORCH_GO_XLA_CHECK", value)
    return before


@pytest.fixture(autouse=True)
def checked() -> Iterator[None]:
    torch_go_xla.sync()
    before = switch("indices")
    yield
    switch(before)


def torch_error(op: Op, *args: torch.Tensor) -> Exception | None:
    try:
        op(*args)
    except (IndexError, RuntimeError) as e:
        return e
    return None


def message(e: BaseException) -> str:
    return str(e).splitlines()[0].rstrip(".")


@pytest.mark.filterwarnings("ignore:index_reduce", "ignore:The reduce argument")
@pytest.mark.parametrize("outside", [9, -9, 1 << 33])
@pytest.mark.parametrize("name", OPS)
def test_the_error_is_torchs(name: str, outside: int) -> None:
    op, table, index = OPS[name], torch.arange(12.0).reshape(3, 4), torch.tensor([0, outside, 1])
    if name == "index, 32 bits" and outside == 1 << 33:
        pytest.skip("0 in 32 bits")
    want = torch_error(op, table, index)
    assert want is not None
    result = op(table.to("xla"), index.to("xla"))
    with pytest.raises(type(want)) as caught:
        torch_go_xla.sync()
    assert type(caught.value) is type(want)
    first, second = str(caught.value).splitlines()
    if name.startswith("embedding_bag"):  # a check of torch's own, with its source line
        assert str(outside) in first
    elif name == "index of a column":  # torch counts the index tensors there, we the dimensions
        assert first == f"index {outside} is out of bounds for dimension 1 with size 4"
    else:
        assert first.startswith(message(want)), message(want)
    assert re.search(rf"recorded by aten::\w+(\.\w+)? at {re.escape(__file__)}:\d+$", second), second
    del result
    torch_go_xla.sync()  # it is raised once


@pytest.mark.filterwarnings("ignore:index_reduce", "ignore:The reduce argument")
@pytest.mark.parametrize("name", OPS)
def test_what_is_in_range_passes(name: str) -> None:
    op, table = OPS[name], torch.arange(12.0).reshape(3, 4)
    for index in (torch.tensor([0, 2, 1]), torch.tensor([0, -1, 1]), torch.tensor([2, 2, 2])):
        want = torch_error(op, table, index)
        op(table.to("xla"), index.to("xla"))
        if want is None:
            torch_go_xla.sync()
        else:
            with pytest.raises(type(want)) as caught:
                torch_go_xla.sync()
            assert message(caught.value).startswith(message(want)[:20])


def out_of_range() -> torch.Tensor:
    return torch.ones(3, device="xla")[torch.tensor([3], device="xla")]


@pytest.mark.parametrize(
    "read",
    [
        lambda x, y: torch_go_xla.sync(),
        lambda x, y: x.cpu(),
        lambda x, y: y.item(),
        lambda x, y: y.tolist(),
        lambda x, y: bool(y),
        lambda x, y: repr(y),
        lambda x, y: torch_go_xla.sync(wait=True),
        lambda x, y: torch_go_xla._XLAC._xla_sync_multi([y], [str(y.device)]),
    ],
)
def test_every_read_looks(read: Callable[[torch.Tensor, torch.Tensor], object]) -> None:
    x, y = out_of_range(), torch.ones((), device="xla") + 1
    with pytest.raises(IndexError, match="index 3 is out of bounds for dimension 0 with size 3"):
        read(x, y)
    assert x.item() == 1 and y.item() == 2  # values are as they are without the checks


def test_a_save_looks(tmp_path: object) -> None:
    import torch_go_xla.core.xla_model as xm

    x = out_of_range()
    with pytest.raises(IndexError, match="index 3"):
        xm.save({"x": x}, f"{tmp_path}/x.pt")


def test_the_place_among_many_and_the_value() -> None:
    index = torch.zeros(1000, dtype=torch.int64)
    index[500], index[700] = -17, 99
    torch.ones(3, device="xla")[index.to("xla")]
    with pytest.raises(IndexError, match="index -17 "):
        torch_go_xla.sync()
    F.embedding_bag(index.to("xla"), torch.ones(3, 2, device="xla"), torch.zeros(1, dtype=torch.int64, device="xla"))
    with pytest.raises(RuntimeError, match=r"Index 500 of input takes value -17 .* \[0, 3\)"):
        torch_go_xla.sync()


def test_ignored_targets() -> None:
    x = torch.zeros(3, 4, device="xla", requires_grad=True)
    F.cross_entropy(x, torch.tensor([0, -100, 3], device="xla")).backward()
    F.nll_loss(x, torch.tensor([0, 77, 3], device="xla"), ignore_index=77).backward()
    torch_go_xla.sync()
    F.nll_loss(x, torch.tensor([0, 77, 78], device="xla"), ignore_index=77)
    with pytest.raises(IndexError, match="Target 78 is out of bounds"):
        torch_go_xla.sync()


def test_a_training_step() -> None:
    table = torch.nn.Embedding(5, 2).to("xla")
    optimizer = torch.optim.SGD(table.parameters(), lr=0.1)
    for i, bad in ((4, False), (5, True), (3, False)):
        optimizer.zero_grad()
        table(torch.tensor([0, i], device="xla")).sum().backward()
        optimizer.step()
        if bad:
            with pytest.raises(IndexError, match="index out of range in self: got 5, expected 0 to 4"):
                torch_go_xla.sync()
        else:
            torch_go_xla.sync()


def test_a_gradient_by_itself() -> None:
    x = torch.zeros(3, 4, device="xla", requires_grad=True)
    y = x.gather(0, torch.tensor([[0, 1, 2, 0]], device="xla"))
    torch_go_xla.sync()
    (g,) = torch.autograd.grad(y, x, torch.ones_like(y))
    assert g.sum().item() == 4


def test_compiled_functions() -> None:
    @torch_go_xla.compile
    def lookup(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return x[i] * 2

    x, good, bad = torch.arange(3.0).to("xla"), torch.tensor([0, 2]).to("xla"), torch.tensor([0, 3]).to("xla")
    for _ in range(4):  # recorded, captured, replayed
        assert lookup(x, good).tolist() == [0, 4]
    for _ in range(3):
        with pytest.raises(IndexError, match=r"index 3 is out of bounds.*\n.*test_value_checks"):
            lookup(x, bad).tolist()
        assert lookup(x, good).tolist() == [0, 4]


def test_a_function_that_control_flow_calls() -> None:
    """What is traced for a branch has no value: it is not checked, and reads beside it are."""
    x, i = torch.arange(3.0).to("xla"), torch.tensor([5]).to("xla")
    y = torch.cond(x.sum() > 0, lambda x, i: x[i], lambda x, i: x[i] + 1, (x, i))
    assert y.tolist() == [2]
    x[i]
    with pytest.raises(IndexError, match="index 5"):
        torch_go_xla.sync()


def test_checks_are_released() -> None:
    x, i = torch.ones(3, device="xla"), torch.tensor([0], device="xla")
    torch_go_xla.sync()
    gc.collect()
    before = core.live_storages()
    for _ in range(10):
        x[i]
        torch_go_xla.sync()
    assert core.live_storages() <= before + 1


def test_off_costs_nothing() -> None:
    x, i = torch.ones(3).to("xla"), torch.tensor([0]).to("xla")
    texts = []
    for value in "010":
        switch(value)
        y = x[i]
        texts.append(core.dump([y.untyped_storage().data_ptr()], "program"))
        nodes = core.counters().get("UncachedCompile", 0)
        torch_go_xla.sync()
        texts.append(str(core.counters().get("UncachedCompile", 0) - nodes))
    assert texts[0] == texts[4]
    assert texts[5] == "0"  # the program of the first round again


@pytest.mark.slow
@pytest.mark.parametrize("shardy", ["0", "1"])
def test_with_spmd(shardy: str) -> None:
    """The indices of a sharded tensor, and those of a replicated one; local values are not checked."""
    run_python(
        """
        import numpy as np, torch, torch_go_xla
        import torch_go_xla.distributed.spmd as xs
        mesh = xs.Mesh(np.arange(4), (4,), ("x",))
        x = torch.arange(8.0).to("xla")
        xs.mark_sharding(x, mesh, ("x",))
        for sharded in (True, False):
            for place, fails in ((5, False), (8, True), (7, False)):
                i = torch.tensor([0, 1, 2, 3, 4, 5, 6, place]).to("xla")
                if sharded:
                    xs.mark_sharding(i, mesh, ("x",))
                y = x[i] * 2
                try:
                    torch_go_xla.sync()
                except IndexError as e:
                    assert fails and "index 8 is out of bounds for dimension 0 with size 8" in str(e), e
                else:
                    assert not fails
                    assert y.tolist()[-1] == 2 * place
        """,
        TORCH_GO_XLA_CHECK="indices",
        XLA_USE_SPMD="1",
        CPU_NUM_DEVICES="4",
        CONVERT_SHLO_TO_SHARDY=shardy,
    )


def test_the_first_of_two() -> None:
    out_of_range()
    torch.ones(2, device="xla")[torch.tensor([7], device="xla")]
    with pytest.raises(IndexError, match="index 3"):
        torch_go_xla.sync()


@pytest.mark.parametrize("pivot", [0, 4])
@pytest.mark.parametrize("device", ["cpu", "xla"])
def test_pivots(device: str, pivot: int) -> None:
    lu, pivots = torch.eye(3).to(device), torch.tensor([1, pivot, 3], dtype=torch.int32).to(device)
    with pytest.raises(RuntimeError, match="(?i)pivots .* lu_solve must all be"):
        torch.linalg.lu_solve(lu, pivots, torch.ones(3, 1).to(device)).cpu()


@pytest.mark.parametrize("pivot", [0, 4])
@pytest.mark.parametrize("device", ["cpu", "xla"])
def test_pivots_of_lu_unpack(device: str, pivot: int) -> None:
    lu, pivots = torch.eye(3).to(device), torch.tensor([1, pivot, 3], dtype=torch.int32).to(device)
    torch.lu_unpack(lu, pivots, unpack_pivots=False)[1].cpu()  # does not look at them
    with pytest.raises(RuntimeError, match="pivots passed to lu_unpack must be between 1 and"):
        torch.lu_unpack(lu, pivots)[0].cpu()
