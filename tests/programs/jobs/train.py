"""What the programs of test_job.py begin with."""

import os

import torch
import torch.distributed as dist
from start import n
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

import torch_go_xla


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4))


def train(model, rows, steps=3):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    device = next(model.parameters()).device
    for step in range(steps):
        g = torch.Generator().manual_seed(step)
        x, y = (torch.randn(8, width, generator=g)[rows].to(device) for width in (6, 4))
        optimizer.zero_grad()
        ((model(x) - y) ** 2).mean().backward()
        optimizer.step()
        torch_go_xla.sync()
    return model


def equal(state, want):
    assert state.keys() == want.keys()
    for name, value in state.items():
        value = value.full_tensor() if isinstance(value, DTensor) else value
        torch.testing.assert_close(value.cpu(), want[name], rtol=1e-5, atol=1e-6)


def sharded():
    m = model().to("xla")
    for layer in m:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    return fully_shard(m, mesh=mesh)


dist.init_process_group("xla", init_method="xla://")
mesh = init_device_mesh("xla", (n,))
checkpoint = os.environ["CHECKPOINT"]
