"""Device that cannot be opened: run by test_bad_input.py."""

import torch

import torch_go_xla

for attempt in range(2):
    try:
        torch.ones(2, device="xla")
    except Exception as e:
        print(type(e).__name__, e)
print("alive", torch.ones(2).sum().item())
