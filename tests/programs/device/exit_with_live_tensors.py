"""Exit with live tensors: run by test_device.py."""

import torch

import torch_go_xla

x = torch.ones(2, device="xla")
y = x + 1
keep = [x.view(2, 1) for _ in range(100)]
print("done")
