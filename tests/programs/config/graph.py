"""Graph: run by test_config.py."""

import torch

import torch_go_xla

x = torch.ones(3, device="xla").add(7.5)
torch_go_xla.sync(wait=True)
