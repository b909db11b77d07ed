"""Both caches are bounded in bytes: run by test_cache.py."""

import torch

import torch_go_xla.runtime as xr

for n in range(3, 7):
    torch.arange(float(n), device="xla").cos().cpu()
print(xr.get_num_cached_compilation_graph())
