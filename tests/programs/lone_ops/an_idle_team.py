"""Print how many threads a long op makes, and how many of them are gone when they have had nothing to do."""

import os
import time

import torch

import torch_go_xla

torch.set_num_threads(2)
x = torch.rand(256, 1 << 13).to("xla")
torch_go_xla.sync(wait=True)
before = set(os.listdir("/proc/self/task"))
y = torch.sort(x)  # long: in the thread of torch's kernels
torch_go_xla.sync(wait=True)
made = set(os.listdir("/proc/self/task")) - before
until = time.monotonic() + 60
while made <= set(os.listdir("/proc/self/task")) and time.monotonic() < until:
    time.sleep(0.01)
print(len(made), len(made - set(os.listdir("/proc/self/task"))))
