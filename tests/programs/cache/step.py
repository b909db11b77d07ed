"""Step: run by test_cache.py."""

import torch

import torch_go_xla.debug.metrics as met

x = torch.arange(12.0, device="xla").view(3, 4)
print((torch.sin(x) @ x.t()).sum().item())
print(
    met.counter_value("UncachedCompile") or 0,
    met.counter_value("PersistentCacheHit") or 0,
    met.counter_value("PersistentCacheDeserializeFailure") or 0,
)
