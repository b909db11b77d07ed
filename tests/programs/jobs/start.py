"""Which process of how many this one is; it opens the device."""

import torch_go_xla.runtime as xr

r, n = xr.global_ordinal(), xr.world_size()
