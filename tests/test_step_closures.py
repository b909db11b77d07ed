"""What runs at the end of a step, and the small tools that training loops take from xla_model and utils."""

from __future__ import annotations

import threading
import time

import pytest
import torch

import torch_go_xla
import torch_go_xla.core.xla_model as xm
import torch_go_xla.utils.utils as xu
from torch_go_xla import _step
from torch_go_xla.utils.closures import AsyncClosureHandler


def test_closures_run_in_order_after_the_sync():
    said = []
    x = torch.ones(2, device="xla").sum()
    xm.add_step_closure(lambda loss, k: said.append((k, loss.item())), args=(x, 1))
    xm.add_step_closure(lambda: said.append(2))
    assert said == []
    torch_go_xla.sync()
    assert said == [(1, 2.0), 2]
    xm.mark_step()
    assert len(said) == 2


def test_a_closure_that_syncs_runs_no_other_twice():
    said = []
    xm.add_step_closure(lambda: (said.append(1), torch_go_xla.sync()))
    xm.add_step_closure(lambda: said.append(2))
    torch_go_xla.sync()
    assert said == [1, 2]


def test_closures_beside_the_next_steps(monkeypatch):
    monkeypatch.setattr(_step, "_handler", None)
    threads, done = [], threading.Event()
    xm.add_step_closure(lambda: threads.append(threading.current_thread()), run_async=True)
    xm.add_step_closure(done.set, run_async=True)
    torch_go_xla.sync()
    assert done.wait(30) and threads != [threading.main_thread()]

    def fail():
        raise ValueError("no disk")

    xm.add_step_closure(fail, run_async=True)
    torch_go_xla.sync()
    with pytest.raises(RuntimeError, match="previously raised exception") as caught:
        for _ in range(200):
            xm.add_step_closure(lambda: None, run_async=True)
            torch_go_xla.sync()
            time.sleep(0.05)
    assert isinstance(caught.value.__cause__, ValueError)


def test_the_queue_of_closures_is_bounded(monkeypatch):
    monkeypatch.setenv("XLA_MAX_ASYNC_QUEUE", "2")
    handler, go, ran = AsyncClosureHandler(), threading.Event(), []
    feeder = threading.Thread(target=handler.run_all, args=([go.wait, *[lambda: ran.append(1)] * 5],))
    feeder.start()
    feeder.join(0.5)
    assert feeder.is_alive()  # waits for a free slot
    go.set()
    feeder.join(30)
    for _ in range(600):
        if len(ran) == 5:
            break
        time.sleep(0.05)
    assert len(ran) == 5


def test_rates():
    tracker = xm.RateTracker(smooth_factor=0.0)
    tracker.add(100)
    time.sleep(0.1)
    assert 0 < tracker.rate() <= 1000
    assert tracker.rate() == 0
    assert 0 < tracker.global_rate() <= 1000


def test_random_numbers_are_forked():
    torch.manual_seed(3)
    with xm.fork_rng():
        inside = torch.rand(4, device="xla").tolist()
    assert torch.rand(4, device="xla").tolist() == inside
    with xm.fork_rng(enabled=False):
        torch.rand(4, device="xla")
    assert torch.rand(4, device="xla").tolist() != inside


def test_view_sharing():
    x = torch.ones(4, device="xla")
    xm.check_view_sharing({"a": x, "b": [x, torch.ones(2)]})
    with pytest.raises(RuntimeError, match="sharing a view"):
        xm.check_view_sharing([x, x[:2]])


def test_arena_converts_all_tensors_together():
    calls = []

    def convert(tensors):
        calls.append(len(tensors))
        return [t.to("xla") for t in tensors]

    arena = xm.ToXlaTensorArena(convert, lambda x: isinstance(x, torch.Tensor))
    x = torch.ones(2)
    got = arena.transform({"a": x, "b": [x, torch.zeros(1), "text"]})
    assert calls == [2] and got["a"] is got["b"][0] and got["a"].device.type == "xla" and got["b"][2] == "text"


def test_utils(monkeypatch, capsys):
    loader = xu.SampleGenerator(data=(1, 2), sample_count=3)
    assert list(loader) == [(1, 2)] * 3 == list(loader) and len(loader) == 3
    assert [len(b) for b, _ in xu.FnDataGenerator(lambda d: d * 2, 4, torch.ones, dims=[2], count=2)] == [4, 4]
    assert xu.as_list(3) == [3] and xu.as_list((3,)) == (3,)
    monkeypatch.setenv("A_FLAG", "1")
    assert xu.getenv_as("A_FLAG", bool) is True and xu.getenv_as("NO_FLAG", int, 7) == 7
    assert xu.check_env_flag("A_FLAG") and not xu.check_env_flag("NO_FLAG")
    assert xu.shape([[1, 2], [3, 4], [5, 6]]) == [3, 2]
    assert xu.flatten_nested_tuple((1, (2, [3]))) == (1, 2, 3)
    assert len(set(xu.get_free_tcp_ports(3))) == 3
    assert xu.parallel_work(2, lambda a, b: a + b, [1, 2], [10, 20]) == [11, 22]
    assert xu.timed(lambda: 5, "took ") == 5 and "took " in capsys.readouterr().err
    cyclic: list = [1]
    cyclic.append(cyclic)
    seen: list = []
    xu.for_each_instance(cyclic, lambda x: isinstance(x, int), seen.append)
    doubled = xu.for_each_instance_rewrite(cyclic, lambda x: isinstance(x, int), lambda x: 2 * x)
    assert seen == [1] and doubled[0] == 2 and doubled[1] is doubled


def test_a_function_on_some_processes():
    x = torch.ones(2, device="xla")
    assert xm.do_on_ordinals(lambda t: (t.device.type, t.sum().item()), (x,)) == ("cpu", 2.0)
    assert xm.do_on_ordinals(lambda: 1, ordinals=(5,)) is None
    assert xm.xla_rendezvous(b"here") == [b"here"]
    with pytest.raises(TypeError):
        xm.xla_rendezvous("text")
