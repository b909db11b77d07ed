"""The mode in which each op runs at its line."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import nn

import torch_go_xla
import torch_go_xla.debug.metrics as met
from torch_go_xla.debug.eager import eager
from torch_go_xla.experimental import eager_mode, eager_mode_context, is_eager_mode


def programs() -> int:
    return met.counter_value("SyncTensorsGraph") or 0


def test_each_op_has_run_when_its_line_returns():
    x = torch.ones(3, device="xla")
    torch_go_xla.sync()
    met.clear_all()
    with eager():
        y = x + 1
        assert programs() == 1
        y.mul_(2)  # in place
        assert programs() == 2
        y[1:]  # a view computes nothing
        assert programs() == 2
    y = y + 1
    assert programs() == 2 and y.tolist() == [5.0] * 3


def test_a_training_step_is_the_same():
    def train(mode):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).to("xla")
        optimizer = torch.optim.Adam(model.parameters())
        x = torch.randn(3, 4).to("xla")
        with eager_mode_context(mode):
            for _ in range(2):
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()
        return [p.detach().cpu() for p in model.parameters()]

    torch.testing.assert_close(train(True), train(False))


def test_compiled_functions_are_recorded_whole():
    torch.manual_seed(0)
    model = nn.Linear(4, 4).to("xla")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    compiled = torch_go_xla.compile(step, full_graph=True)
    x = torch.randn(2, 4, device="xla")
    torch_go_xla.sync()
    with eager_mode_context(True):
        assert is_eager_mode()
        for _ in range(5):
            compiled(x)
        assert compiled.replays >= 2
        torch_go_xla.sync()
        met.clear_all()
        with torch_go_xla.compile(full_graph=True):
            step(x)
        assert programs() == 1
    assert not is_eager_mode()


def test_it_is_of_one_thread():
    seen = []
    with eager_mode_context(True):
        thread = threading.Thread(target=lambda: seen.append(is_eager_mode()))
        thread.start()
        thread.join()
        eager_mode(True)  # twice is once
    assert not is_eager_mode() and seen == [False]


def test_errors_are_raised_at_their_line():
    x = torch.ones(2, device="xla")
    torch_go_xla._XLAC._set_buffer_donation(x, True)
    with pytest.raises(torch_go_xla.DonatedBufferError):
        with eager():
            x + 1  # takes the buffer over
            x * 2
