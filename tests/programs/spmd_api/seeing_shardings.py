"""Seeing shardings: run by test_spmd_api.py."""

import sys

import torch
from raises import raises
from start import mesh

import torch_go_xla.distributed.spmd as xs

x = torch.zeros(8, 6).to("xla")
xs.mark_sharding(x, mesh, ("data", "model"))
xs.debugging.visualize_tensor_sharding(x, use_color=False)
sys.modules["rich"] = sys.modules["rich.align"] = None  # as if not installed
for text in ("{devices=[2,1,4]0,1,2,3,4,5,6,7 last_tile_dim_replicate}", "{replicated}", "", "{maximal device=3}"):
    print(xs.debugging.visualize_sharding(text))
raises(ValueError, "rubbish", xs.debugging.visualize_sharding, "rubbish")
