"""Tensors on several devices are refused: run by test_spmd.py."""

import torch
from raises import raises

import torch_go_xla.runtime as xr

a, b = torch.ones(2).to("xla:0"), torch.ones(2).to("xla:3")
raises(RuntimeError, "xla:3", xr.use_spmd)
assert not xr.is_spmd() and (a * 2).tolist() == [2, 2] and (b * 3).tolist() == [3, 3]
del b
xr.use_spmd()
assert (a * 2).tolist() == [2, 2]
