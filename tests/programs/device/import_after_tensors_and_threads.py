"""Import after tensors and threads: run by test_device.py."""

import torch

import torch_go_xla

x = torch.ones(2, requires_grad=True)
(x * 2).sum().backward()

assert x.to("xla").tolist() == [1, 1]
print("done")
