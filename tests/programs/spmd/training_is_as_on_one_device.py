"""Training is as on one device: run by test_spmd.py."""

import torch
from start import COLUMNS, ROWS
from torch import nn

import torch_go_xla
import torch_go_xla.runtime as xr
from torch_go_xla._backend import partitioning
from torch_go_xla._core import core

xr.use_spmd()


def train(device):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 8)).to(device)
    if device == "xla":
        partitioning.annotate_(model[0].weight, ROWS)
        partitioning.annotate_(model[0].bias, "{devices=[8]<=[8]}")
        partitioning.annotate_(model[2].weight, COLUMNS)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    torch.manual_seed(2)
    losses, counts = [], []
    for _ in range(10):
        x, y = torch.randn(4, 16).to(device), torch.randn(4, 8).to(device)
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss)
        if device == "xla":
            torch_go_xla.sync(wait=True)  # what a launch counts is counted as it runs
            counts.append((core.counters()["UncachedCompile"], core.counters().get("DonatedBuffers", 0)))
    return torch.stack([loss.detach().cpu() for loss in losses]), model, optimizer, counts


want, plain, _, _ = train("cpu")
got, model, optimizer, counts = train("xla")
assert torch.allclose(got, want, rtol=1e-5)
for a, b in zip(model.parameters(), plain.parameters()):
    assert torch.allclose(a.detach().cpu(), b.detach(), rtol=1e-5, atol=1e-6)
assert [partitioning.sharding_of(p) for p in model.parameters()] == [ROWS, "{devices=[8]<=[8]}", COLUMNS, ""]
state = optimizer.state[model[0].weight]["exp_avg"]
assert partitioning.sharding_of(state) == ROWS, "the compiler shards the optimizer's state as the weights"
compiles, donated = zip(*counts)
assert len(set(compiles[1:])) == 1, "from the second step on it is one program"
assert {b - a for a, b in zip(donated[1:], donated[2:])} == {12}, "4 parameters and their moments are updated in place"
