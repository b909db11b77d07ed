"""The ends of objects wait for nothing, wherever they come: in forks, within locks, at the end of the process."""

from __future__ import annotations

import gc
import os
import threading
import urllib.request
from pathlib import Path

import processes
import pytest
import torch

import torch_go_xla.debug.profiler as xp
from torch_go_xla._lifetime import Ends
from torch_go_xla.distributed.parallel_loader import ParallelLoader
from torch_go_xla.stablehlo import save_torch_model_as_stablehlo


class Owner:
    """Can be referred to weakly."""


def test_an_end_is_noted_and_released_later() -> None:
    ends, released = Ends(), []
    owners = [Owner() for _ in range(3)]
    for i, owner in enumerate(owners):
        ends.when_gone(owner, released.append, i)
    del owners[1], owner
    assert released == []
    ends.release_gone()
    assert released == [1]
    owners.clear()
    ends.when_gone(ends, print)
    assert sorted(released) == [0, 1, 2]
    assert len(ends._ends) == 1


def test_a_bundle_in_a_fork(tmp_path: Path) -> None:
    save_torch_model_as_stablehlo(torch.nn.Linear(4, 8), (torch.ones(3, 4),), tmp_path)
    p = processes.run("lifetime/bundle_in_a_fork.py", tmp_path, timeout=120)
    assert p.code == 0, p.out + p.err
    assert "cannot be used in a forked child" in p.out
    assert "Exception ignored" not in p.err


def test_a_cleaner() -> None:
    """It is called once, by the process that made it, though that ends with the object alive."""
    p = processes.run("lifetime/cleaner.py")
    assert p.code == 0, p.out + p.err
    there, _, rest = p.out.partition(" ")
    folder, called = rest.split()
    assert (there, called) == ("True", "called")
    assert not os.path.exists(folder)


def test_a_profiler_server_that_ends_in_its_own_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    collected: list[int] = []

    def collect(handler: xp._Handler) -> None:
        collected.append(gc.collect())
        handler.send_response(204)
        handler.end_headers()

    monkeypatch.setattr(xp._Handler, "do_GET", collect)
    server = xp.start_server(0)
    assert server is not None
    url, thread = f"http://127.0.0.1:{server.port}/", server._thread
    gc.disable()
    try:
        circle: list[object] = [server]
        circle.append(circle)
        del circle, server
        with urllib.request.urlopen(url, timeout=30) as answer:
            assert answer.status == 204
    finally:
        gc.enable()
    thread.join(30)
    assert collected
    assert not thread.is_alive()


def test_a_loader_ends_while_its_queue_is_locked() -> None:
    loaders = [ParallelLoader([torch.ones(2)] * 100, ["xla"])]
    threads, channel = loaders[0]._threads, next(iter(loaders[0]._ready.values()))
    with channel._changed:
        end = threading.Thread(target=loaders.clear)
        end.start()
        end.join(30)
        assert not end.is_alive()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
