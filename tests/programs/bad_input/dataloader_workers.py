"""Dataloader workers: run by test_bad_input.py."""

import torch
from torch.utils.data import DataLoader, TensorDataset

import torch_go_xla

torch.ones(1, device="xla").item()
data = TensorDataset(torch.arange(32.0).view(16, 2))
total = torch.zeros((), device="xla")
for (batch,) in DataLoader(data, batch_size=4, num_workers=2):
    total += batch.to("xla").sum()
print(total.item())
