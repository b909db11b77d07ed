"""Recurrent layers over long sequences are loops: equal to torch's on the CPU, and no larger for more rows."""

from __future__ import annotations

import pytest
import torch

import torch_go_xla.debug.metrics as met
from torch_go_xla._backend.composed import recurrent_layers

LONG = recurrent_layers.SHORTEST + 1
LAYERS = {
    "lstm": (torch.nn.LSTM, {"bidirectional": True}),
    "gru": (torch.nn.GRU, {"num_layers": 2, "batch_first": True}),
    "rnn": (torch.nn.RNN, {"nonlinearity": "relu", "bias": False}),
}


def layer(name, device):
    torch.manual_seed(0)
    cls, options = LAYERS[name]
    return cls(3, 4, **options).to(device), torch.randn(LONG, LONG, 3).to(device).requires_grad_()


def gradients(module, x, **kwargs):
    out, state = module(x)
    loss = out.pow(2).sum() + sum(s.sin().sum() for s in (state if isinstance(state, tuple) else (state,)))
    return out, torch.autograd.grad(loss, [x, *module.parameters()], **kwargs)


@pytest.mark.parametrize("name", LAYERS)
def test_layers_equal_the_cpu(name):
    met.clear_counters()
    results = {}
    for device in ("cpu", "xla"):
        out, grads = gradients(*layer(name, device))
        results[device] = [t.detach().cpu() for t in (out, *grads)]
    torch.testing.assert_close(results["xla"], results["cpu"], rtol=1e-4, atol=1e-4)
    assert met.executed_fallback_ops() == []


def test_a_program_does_not_grow_with_the_sequence():
    counts = []
    for rows in (LONG, 30 * LONG):
        module, x = layer("lstm", "xla")
        x = x.detach()[:1].expand(rows, -1, -1).requires_grad_()
        before = met.counter_value("TracedOps")
        gradients(module, x)
        counts.append(met.counter_value("TracedOps") - before)
    assert counts[0] == counts[1]


@pytest.mark.longer
def test_gradients_of_gradients():
    results = []
    for device in ("cpu", "xla"):
        module, x = layer("rnn", device)
        x = x[:, :1].detach().requires_grad_()
        _, grads = gradients(module, x, create_graph=True)
        results.append([g.cpu() for g in torch.autograd.grad(sum(g.pow(2).sum() for g in grads), [x])])
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-4)


@pytest.mark.longer
def test_autocast_and_transforms_agree_with_cells(monkeypatch):
    module, x = layer("rnn", "xla")
    with torch.autocast("xla", dtype=torch.bfloat16):
        loop = module(x)[0]
    of_loop = torch.autograd.grad(module(x)[0].sum(), x)[0]
    of_cells = torch.func.grad(lambda y: module(y)[0].sum())(x.detach())
    monkeypatch.setattr(recurrent_layers, "SHORTEST", 10 * LONG)
    with torch.autocast("xla", dtype=torch.bfloat16):
        cells = module(x)[0]
    assert loop.dtype == cells.dtype == torch.bfloat16
    torch.testing.assert_close(loop.cpu(), cells.cpu(), rtol=2e-2, atol=2e-2)
    torch.testing.assert_close(of_loop.cpu(), of_cells.cpu(), rtol=1e-4, atol=1e-5)
