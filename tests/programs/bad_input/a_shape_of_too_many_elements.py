"""A shape of too many elements: run by test_bad_input.py."""

import torch

import torch_go_xla

for attempt in range(3):
    try:
        torch.zeros(1 << 40, 1 << 40, device="xla")
    except RuntimeError as e:
        print(e)
    print(torch.ones(5, device="xla").sum().item())
