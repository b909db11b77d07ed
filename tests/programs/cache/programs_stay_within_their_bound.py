"""Compiled programs take no more of the heap than their bound: run by test_cache.py. Prints megabytes."""

import ctypes
import gc

import torch

import torch_go_xla


class Info(ctypes.Structure):
    """What the C library's mallinfo2 returns."""

    _fields_ = [(f"field{i}", ctypes.c_size_t) for i in range(10)]
    USED = "field7"


def used() -> float:
    """Return the megabytes of the heap that are in use."""
    gc.collect()
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = Info
    return float(getattr(mallinfo2(), Info.USED)) / (1 << 20)


layers = [layer for _ in range(8) for layer in (torch.nn.Linear(32, 32), torch.nn.ReLU())]
model = torch.nn.Sequential(*layers).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def step(batch: int) -> None:
    """Train on a batch of a size that needs a program of its own."""
    optimizer.zero_grad()
    model(torch.randn(batch, 32).to("xla")).square().mean().backward()
    optimizer.step()
    torch_go_xla.sync(wait=True)


for batch in range(2, 5):
    step(batch)
before = used()
for batch in range(5, 17):
    step(batch)
print(used() - before)
