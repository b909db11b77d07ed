"""A process stops in the midst of collectives."""

import os
import signal
import time

import torch
from start import n, r
from told import alone, size, stops, told

import torch_go_xla.core.xla_model as xm

t = torch.ones(size, device="xla")
for _ in range(2):
    assert xm.all_reduce("sum", t).sum().item() == n * size
if r == stops:
    os.kill(os.getpid(), signal.SIGSTOP)
began = time.monotonic()
told("", lambda: [xm.all_reduce("sum", t).sum().item() for _ in range(3)])
told("", lambda: xm.all_reduce("sum", t).tolist())
told("", lambda: xm.rendezvous("after"))
alone()
print("told", time.monotonic() - began, flush=True)
if r == 0:
    time.sleep(10)  # it serves the store, which slower processes still ask
