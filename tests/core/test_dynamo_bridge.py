"""Graphs of torch.fx as programs."""

from __future__ import annotations

import torch

import torch_go_xla.debug.metrics as met
from torch_go_xla.core.dynamo_bridge import extract_compiled_graph
from torch_go_xla.experimental.gru import GRU


def test_a_graph_is_recorded_once() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return (x @ y).sin(), x + 1

    x, y = torch.randn(3, 4), torch.randn(4, 2)
    run = extract_compiled_graph(torch.fx.symbolic_trace(f), (x.to("xla"), y.to("xla")))
    for _ in range(2):
        torch.testing.assert_close(
            [t.cpu() for t in run(x.to("xla"), y.to("xla"))], list(f(x, y)), rtol=1e-4, atol=1e-5
        )
    met.clear_counters()
    run(x.to("xla"), y.to("xla"))
    assert met.counter_value("Replays") == 1


def test_the_recurrent_unit_is_torchs() -> None:
    torch.manual_seed(0)
    theirs = torch.nn.GRU(3, 4, num_layers=2, bidirectional=True)
    ours = GRU(3, 4, num_layers=2, bidirectional=True)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(5, 2, 3)
    want, got = theirs(x), ours.to("xla")(x.to("xla"))
    torch.testing.assert_close([t.cpu() for t in got], list(want), rtol=1e-4, atol=1e-5)
