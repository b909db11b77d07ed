"""Computes in one graph what needs several times 16 MiB: run by test_tiers.py with a limit of memory.

It sorts so many scaled copies, adds one that it scales, or turns a matrix; prints a value and how many graphs ran op by
op.
"""

import sys

import torch

import torch_go_xla
from torch_go_xla.debug import metrics

x = torch.ones(1 << 22, device="xla")
torch_go_xla.sync(wait=True)
if sys.argv[1] == "rows":
    x = x.view(1 << 10, 1 << 12)
    y = x.index_add(0, torch.zeros(1 << 10, dtype=torch.long, device="xla"), x, alpha=2)[1]
elif sys.argv[1] == "turned":
    y = x.view(1 << 10, 1 << 12).t().reshape(1 << 8, -1).reciprocal()[1]
else:
    y = sum((x * k).sort()[0] for k in range(int(sys.argv[1])))
print(y[0].item(), metrics.counter_value("InterpretedGraphs"))
