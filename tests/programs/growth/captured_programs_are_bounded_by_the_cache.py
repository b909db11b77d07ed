"""Captured programs are bounded by the cache: run by test_growth.py."""

import torch

import torch_go_xla
import torch_go_xla.debug.metrics as met

step = torch_go_xla.compile(lambda x: x.cumsum(0) + 1)
for _ in range(4):
    for n in range(1, 7):
        assert step(torch.ones(n, device="xla")).tolist() == [k + 2.0 for k in range(n)]
print(met.counter_value("ReplayMisses") or 0, step.replays)
