"""Keep programs in the folder of the argument; a second call comes too late."""

import sys

import torch

import torch_go_xla
import torch_go_xla.runtime as xr

xr.initialize_cache(sys.argv[1])
(torch.ones(3, device="xla") * 2).tolist()
torch_go_xla.sync(wait=True)
try:
    xr.initialize_cache(sys.argv[1])
except RuntimeError as e:
    print(e)
