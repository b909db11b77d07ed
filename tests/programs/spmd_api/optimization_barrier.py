"""Optimization barrier: run by test_spmd_training.py."""

import torch

from torch_go_xla import _XLAC
from torch_go_xla.core import xla_model as xm

x, y = torch.arange(4.0).to("xla"), torch.ones(2, 2).to("xla") * 3
z = x * 2
xm.optimization_barrier_([z, y, torch.ones(1, device="xla").expand(3)])
text = _XLAC._get_stablehlo([z])
assert "stablehlo.optimization_barrier" in text and z.tolist() == [0, 2, 4, 6] and y.tolist() == [[3, 3], [3, 3]]
assert [t.tolist() for t in torch.ops.torch_go_xla.optimization_barrier([x])] == [[0, 1, 2, 3]]
xm.optimization_barrier_([])
