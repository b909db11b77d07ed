"""What the programs of test_spmd_jobs.py begin with."""

import torch_go_xla.distributed.spmd as xs
import torch_go_xla.runtime as xr

r = xr.process_index()
xr.use_spmd()
mesh = xs.Mesh(range(4), (2, 2), ("data", "model"))
