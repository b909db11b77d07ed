"""What the programs of test_spmd_training.py begin with."""

import torch_go_xla.distributed.spmd as xs
import torch_go_xla.runtime as xr
from torch_go_xla import _XLAC

spec_of = _XLAC._get_xla_sharding_spec
xr.use_spmd()
mesh = xs.Mesh(range(8), (2, 4), ("data", "model"))
