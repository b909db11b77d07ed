"""Graphs of one op, with little to fuse, run by torch's kernels where those were measured to be faster."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import torch_go_xla
import torch_go_xla.debug.profiler as xp
from torch_go_xla import _XLAC
from torch_go_xla.core import xla_model as xm
from torch_go_xla.debug import compilations, metrics

SIZE = 1 << 13


def floats(*size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.rand(size, generator=torch.Generator().manual_seed(0)).add(0.1).to(dtype)


def count(name: str) -> float:
    return metrics.counter_value(name) or 0


class Runs:
    """How many graphs of a block ran by torch's kernels, failed so, and were compiled."""

    def __enter__(self) -> Runs:
        torch_go_xla.sync(wait=True)
        self.before = self._now()
        return self

    def _now(self) -> tuple[float, ...]:
        return tuple(map(count, ("InterpretedGraphs", "InterpretationsFailed", "UncachedCompile")))

    def __exit__(self, *_: object) -> None:
        torch_go_xla.sync(wait=True)
        self.by_torch, self.failed, self.compiled = (int(b - a) for a, b in zip(self.before, self._now(), strict=True))


def spd(n: int) -> torch.Tensor:
    x = floats(n, n)
    return x @ x.T + n * torch.eye(n)


OPS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "sin": (torch.sin, (floats(SIZE),)),
    "exp of bf16": (torch.exp, (floats(SIZE, dtype=torch.bfloat16),)),
    "sqrt of bf16": (torch.sqrt, (floats(SIZE, dtype=torch.bfloat16),)),
    "a strided operand": (lambda x: torch.abs(x[::2, 1:]), (floats(256, 128),)),
    "a transposed operand": (lambda x: torch.floor(x.t()), (floats(64, 256),)),
    "a number": (lambda x: x - 2.5, (floats(SIZE),)),
    "two ops": (lambda x, y: x.abs() + y, (floats(SIZE), floats(SIZE))),
    "outer": (torch.outer, (floats(100), floats(90))),
    "sum": (torch.sum, (floats(SIZE),)),
    "sum in f64": (lambda x: torch.sum(x, dtype=torch.float64), (floats(SIZE),)),
    "mean of rows": (lambda x: x.mean(1, keepdim=True), (floats(64, 128),)),
    "max": (torch.max, (torch.cat([floats(SIZE), torch.tensor([torch.nan])]),)),
    "prod of integers": (torch.prod, (torch.arange(SIZE),)),
    "norm": (torch.linalg.norm, (floats(SIZE),)),
    "cumsum": (lambda x: x.cumsum(0), (floats(128, 64),)),
    "softmax": (lambda x: torch.softmax(x, 0), (floats(128, 64),)),
    "layer_norm": (lambda x: F.layer_norm(x, (64,)), (floats(128, 64),)),
    "cat": (lambda x, y: torch.cat([x, y], 1), (floats(64, 64), floats(64, 32))),
    "roll": (lambda x: x.roll(3, 0), (floats(64, 128),)),
    "rows": (lambda x, i: x[i], (floats(64, 128), torch.tensor([3, -1, 0]))),
    "to f64": (lambda x: x.to(torch.float64), (floats(SIZE),)),
    "square": (torch.square, (floats(SIZE),)),
    "a permutation": (lambda x: x.permute(1, 2, 0).contiguous(), (floats(16, 32, 64),)),
    "rfft": (torch.fft.rfft, (floats(1 << 15),)),
    "product of f64": (torch.matmul, (floats(320, 320, dtype=torch.float64),) * 2),
    "sort": (lambda x: torch.sort(x, descending=True), (floats(64, 128),)),
    "scatter_add": (lambda x, i: x.new_zeros(100).scatter_add(0, i, x), (floats(SIZE), torch.arange(SIZE) % 100)),
    "argsort": (torch.argsort, (torch.arange(SIZE) * 31 % SIZE,)),
    "product": (torch.matmul, (floats(64, 64), floats(64, 32))),
    "product with a transpose": (lambda x, y: x @ y.T, (floats(64, 64), floats(32, 64))),
    "det": (torch.linalg.det, (spd(32),)),
    "cholesky": (torch.linalg.cholesky, (spd(32),)),
    "svd": (torch.linalg.svd, (floats(32, 32),)),
    "eigh": (torch.linalg.eigh, (spd(32),)),
    "convolution": (lambda x, w: F.conv2d(x, w, padding=1), (floats(2, 16, 32, 32), floats(16, 16, 3, 3))),
    "attention": (lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), (floats(1, 4, 32, 64),)),
}


def flat(values: Any) -> list[torch.Tensor]:
    return [values] if isinstance(values, torch.Tensor) else list(values)


@pytest.mark.parametrize("name", OPS)
def test_an_op_runs_by_torchs_kernel(name: str) -> None:
    op, host = OPS[name]
    args = [x.to("xla") for x in host]
    with Runs() as runs:
        got = flat(op(*args))
    assert runs.by_torch >= 1
    assert (runs.failed, runs.compiled) == (0, 0)
    for g, want in zip(got, flat(op(*host)), strict=True):
        assert (g.dtype, g.shape) == (want.dtype, want.shape)
        torch.testing.assert_close(g.cpu(), want, equal_nan=True)


@pytest.mark.compiled
@pytest.mark.parametrize(
    "op",
    [
        lambda x: x[:100].sin(),  # too small
        lambda x: torch.rand_like(x),
        lambda x: ((((x + 1).abs() - 2).neg() + 3).exp() * 2).floor(),  # worth fusing
    ],
    ids=["small", "random", "many"],
)
def test_what_fuses_or_is_small_is_compiled(op: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = floats(SIZE).to("xla")
    with Runs() as runs:
        y = op(x)
    assert runs.by_torch == 0
    assert runs.compiled <= 1  # another test may have had the same graph
    assert y.shape


@pytest.mark.parametrize(
    "op",
    [lambda x: x.add_(1), lambda x: x.abs_(), lambda x: x[8:].mul_(3), lambda x: x.copy_(x.flip(0))],
    ids=["add", "abs", "a part", "copy"],
)
def test_an_op_in_place_gives_its_storage_a_new_value(op: Callable[[torch.Tensor], torch.Tensor]) -> None:
    host = floats(SIZE) - 0.5
    x = host.to("xla")
    part, kept = x[: SIZE // 2], x.detach().clone()
    torch_go_xla.sync()
    with Runs() as runs:
        op(x)
    assert runs.failed == 0
    before = host.clone()
    op(host)
    torch.testing.assert_close(x.cpu(), host)
    torch.testing.assert_close(part.cpu(), host[: SIZE // 2])  # an alias
    torch.testing.assert_close(kept.cpu(), before)


@pytest.mark.compiled
def test_a_large_op_in_place_saves_a_buffer() -> None:
    x = torch.ones(3 << 20, device="xla")
    torch_go_xla.sync(wait=True)
    with Runs() as runs:
        x.add_(1)
    assert runs.by_torch == 0
    assert x.cpu().eq(2).all()


def test_a_replay_runs_by_torchs_kernel() -> None:
    step = torch_go_xla.compile(lambda x: x.sin())
    host = floats(SIZE, 2)
    for _ in range(3):
        step(host.to("xla"))
    with Runs() as runs:
        for k in range(5):
            torch.testing.assert_close(step((host + k).to("xla")).cpu(), (host + k).sin())
    assert (runs.by_torch, runs.failed, runs.compiled) == (5, 0, 0)


def test_a_replay_draws_anew() -> None:
    step = torch_go_xla.compile(lambda x: torch.dropout(x, 0.5, True).abs())
    x = torch.ones(SIZE, device="xla")
    results = [step(x).cpu() for _ in range(5)]
    assert not results[-1].equal(results[-2])


def test_what_the_thread_asks_of_torch_does_not_count() -> None:
    x = floats(64, 64)
    a = x.to("xla")
    with Runs() as runs, torch.autocast("cpu", dtype=torch.bfloat16), torch.inference_mode():
        with torch.autocast("cpu", enabled=False):
            y = a @ a  # recorded without autocast, launched with it
        torch_go_xla.sync()
    assert (runs.by_torch, runs.failed) == (1, 0)
    torch.testing.assert_close(y.cpu(), x @ x)
    assert torch.is_grad_enabled()


def test_an_index_out_of_range_is_left_to_the_compiled_program() -> None:
    x, i = floats(64, 128), torch.tensor([1, 64])
    with Runs() as runs:
        y = x.to("xla")[i.to("xla")]
    assert runs.by_torch == 0
    assert runs.failed == 1
    torch.testing.assert_close(y.cpu(), x[[1, 63]])  # as a device does that cannot raise


def test_values_read_the_arguments_of_their_moment() -> None:
    host = floats(SIZE)
    x = host.to("xla")
    y = x.sin()
    torch_go_xla.sync()
    x.mul_(0)
    torch_go_xla.sync()
    z = y.abs()
    torch_go_xla.sync()
    y.add_(1)  # takes over the memory of what torch's kernel has made
    torch_go_xla.sync()
    assert x.cpu().eq(0).all()
    torch.testing.assert_close(z.cpu(), host.sin().abs())
    torch.testing.assert_close(y.cpu(), host.sin() + 1)


def test_many_threads_launch() -> None:
    host = floats(SIZE)
    failures: list[BaseException] = []

    def work(k: int) -> None:
        try:
            x = (host + k).to("xla")
            for _ in range(20):
                torch.testing.assert_close(x.exp().sum().cpu(), (host + k).exp().sum())
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_no_buffer_stays() -> None:
    x = floats(SIZE).to("xla")
    gc.collect()
    torch_go_xla.sync(wait=True)
    before = xm.get_memory_info("xla:0")["bytes_used"]
    for _ in range(5):
        x.cos()
        y = x.cos()
        torch_go_xla.sync(wait=True)
    del y
    torch_go_xla.sync(wait=True)
    assert xm.get_memory_info("xla:0")["bytes_used"] <= before


@pytest.mark.compiled
def test_a_small_result_is_given_to_programs_that_read_it() -> None:
    host = floats(SIZE) - 0.5
    x = host.to("xla")
    y = x.abs()
    torch_go_xla.sync(wait=True)
    seen = torch.from_dlpack(y)
    with Runs() as runs:
        z = ((((y + 1).abs() - 2).neg() + 3).exp() * 2).floor()
    assert runs.by_torch == 0
    y.add_(1)  # has a program write the new value elsewhere
    torch_go_xla.sync(wait=True)
    want = host.abs()
    torch.testing.assert_close(seen, want)
    torch.testing.assert_close(z.cpu(), ((((want + 1).abs() - 2).neg() + 3).exp() * 2).floor())
    torch.testing.assert_close(y.cpu(), want + 1)


def test_memory_of_small_results_is_counted_and_used_again() -> None:
    def used() -> int:
        torch_go_xla.sync(wait=True)
        gc.collect()
        torch_go_xla.sync(wait=True)
        return int(xm.get_memory_info("xla:0")["bytes_used"])

    x = floats(SIZE).to("xla")
    before = used()
    results = []
    for k in range(40):
        results.append((x.exp(), torch.sum(x[: SIZE - k], dtype=torch.float64)))
        torch_go_xla.sync()
    assert used() >= before + 40 * (4 * SIZE + 8)
    for pair in results[::2]:  # programs have some of them
        (((((pair[0] + 1).abs() - 2).neg() + 3).exp() * 2).floor()).cpu()
    for k, (y, s) in enumerate(results):
        torch.testing.assert_close(y.cpu(), floats(SIZE).exp())
        torch.testing.assert_close(s.cpu(), torch.sum(floats(SIZE)[: SIZE - k], dtype=torch.float64))
    addresses = {torch.from_dlpack(y).data_ptr() for y, _ in results[1::2]}
    del y, s, pair
    results.clear()
    assert used() <= before
    again = x.exp()
    torch_go_xla.sync(wait=True)
    assert torch.from_dlpack(again).data_ptr() in addresses


def test_a_failed_kernel_leaves_nothing_for_the_next_run() -> None:
    x, rows = floats(64, 128), [torch.tensor([3, 5]), torch.tensor([3, 64]), torch.tensor([0, 63])]
    device = x.to("xla")
    for i in rows:
        torch.testing.assert_close(device[i.to("xla")].cpu(), x[i.clamp(max=63)])


def test_a_result_in_torchs_memory_is_counted_and_freed() -> None:
    x = floats(1 << 10, 1 << 10).to("xla")
    torch_go_xla.sync(wait=True)
    gc.collect()
    before = xm.get_memory_info("xla:0")["bytes_used"]
    y = x.roll(1, 0)
    torch_go_xla.sync(wait=True)
    assert xm.get_memory_info("xla:0")["bytes_used"] >= before + (4 << 20)
    z = y * 2  # a program reads it
    y.mul_(3)  # and none takes it over
    torch_go_xla.sync()
    torch.testing.assert_close(y.cpu(), floats(1 << 10, 1 << 10).roll(1, 0) * 3)
    torch.testing.assert_close(z.cpu(), floats(1 << 10, 1 << 10).roll(1, 0) * 2)
    del y, z
    torch_go_xla.sync(wait=True)
    assert xm.get_memory_info("xla:0")["bytes_used"] <= before


def test_results_that_share_memory_have_their_own() -> None:
    x = floats(64, 128)
    y = x.to("xla").roll(3, 0)
    z = y.view(-1)[: 64 * 64].clone()
    torch_go_xla.sync(wait=True)
    z.add_(1)
    torch_go_xla.sync(wait=True)
    torch.testing.assert_close(y.cpu(), x.roll(3, 0))
    torch.testing.assert_close(z.cpu(), x.roll(3, 0).view(-1)[: 64 * 64] + 1)


def test_explain_says_so() -> None:
    x = floats(SIZE, 3).to("xla")
    with Runs():
        y = x.expm1()
    assert "runs by torch's kernels, as there is little to fuse" in str(compilations.explain())
    assert y.shape == (SIZE, 3)


def test_the_timeline_and_the_picture_say_so(tmp_path: Path) -> None:
    x = floats(SIZE, 2).to("xla")
    y = x.log1p()
    assert "torch: aten::log1p" in _XLAC._get_xla_tensors_dot([y])
    with xp.trace(str(tmp_path / "trace.json")):
        torch_go_xla.sync(wait=True)
    assert "torch's kernels" in {
        e.get("name") for e in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    }
    small = x[:2].log1p()
    assert "torch: " not in _XLAC._get_xla_tensors_dot([small])


def test_a_small_part_does_not_keep_the_whole(ok: Callable[..., str]) -> None:
    assert int(ok("lone_ops/small_parts.py", XLA_TIER="eager")) < 200 << 20


def test_a_thread_without_work_gives_up_its_team(ok: Callable[..., str]) -> None:
    made, gone = map(int, ok("lone_ops/an_idle_team.py").split())
    assert made >= 2  # the thread of torch's kernels, and those that compute for it
    assert gone >= 1


def test_the_number_of_threads_stays() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    counts: list[int] = []

    def work() -> None:
        y = floats(SIZE // 2).to("xla").floor()  # little: in one thread
        torch_go_xla.sync(wait=True)
        counts.append(torch.get_num_threads())
        assert y.shape

    try:
        thread = threading.Thread(target=work)  # torch sets the number when a thread first asks
        thread.start()
        thread.join()
        work()
        assert counts == [2, 2]
    finally:
        torch.set_num_threads(before)
