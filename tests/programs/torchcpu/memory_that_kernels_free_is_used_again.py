"""The page faults of each of eight convolutions and their reading."""

import resource

import torch

import torch_go_xla

x, kernel = torch.randn(16, 64, 48, 48, device="xla"), torch.randn(64, 64, 3, 3, device="xla")
for _ in range(8):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    y = torch.conv2d(x, kernel, padding=1)
    torch.conv2d(y.relu() * 0.1, kernel, padding=1).sum().item()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
