"""Nothing is left in a new process: run by test_memory.py."""

import gc

import torch

import torch_go_xla

model = torch.nn.Linear(4, 4).to("xla")
model(torch.ones(2, 4, device="xla")).sum().backward()
torch_go_xla.sync()
assert torch_go_xla.live_bytes() > 0
del model
gc.collect()
torch_go_xla.sync(wait=True)
assert torch_go_xla.live_bytes() == 0, torch_go_xla.live_bytes()
assert torch_go_xla._core.core.live_storages() == 0
assert torch_go_xla._core.core.live_buffers() == 0
