"""Start up writes nothing: run by test_bad_input.py."""

import torch

import torch_go_xla

x = torch.ones(3, device="xla")
print((x @ x).item())
