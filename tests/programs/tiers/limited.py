"""Sorts so many scaled copies of 16 MiB in one graph: run by test_tiers.py with a limit of memory."""

import sys

import torch

import torch_go_xla
from torch_go_xla.debug import metrics

x = torch.ones(1 << 22, device="xla")
torch_go_xla.sync(wait=True)
y = sum((x * k).sort()[0] for k in range(int(sys.argv[1])))
print(y[0].item(), metrics.counter_value("InterpretedGraphs"))
