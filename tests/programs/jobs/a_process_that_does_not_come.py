"""A process lives, and its device does, but it does not come to a collective."""

import time

import torch
from start import n, r
from told import alone, size, stops, told

import torch_go_xla.core.xla_model as xm

t = torch.ones(size, device="xla")
for _ in range(2):
    assert xm.all_reduce("sum", t).sum().item() == n * size
if r == stops:
    time.sleep(600)
began = time.monotonic()
told(
    "has not come within 10s to number 3 of the exchanges of xla:0 among processes 0 1",
    lambda: xm.all_reduce("sum", t).tolist(),
)
told("", lambda: xm.all_reduce("sum", t).tolist())
alone()
print("told", flush=True)
