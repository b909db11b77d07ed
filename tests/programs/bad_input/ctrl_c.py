"""KeyboardInterrupt comes while a value is waited for."""

import os
import signal

import torch

import torch_go_xla

signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background start without
x = torch.ones(8, 8, device="xla")
x.sum().item()
y = x
for i in range(300):
    y = torch.sin(y @ x) + i * 0.001
print("ready", flush=True)
try:
    y.sum().item()
except KeyboardInterrupt:
    print("interrupted", flush=True)
print(x.sum().item(), flush=True)

os._exit(0)
