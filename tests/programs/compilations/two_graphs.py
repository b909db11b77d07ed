"""A step of which the graph changes."""

import torch

import torch_go_xla

x = torch.ones(3, device="xla")
for n in (2, 3):
    x = x.repeat(n)
    torch_go_xla.sync()
