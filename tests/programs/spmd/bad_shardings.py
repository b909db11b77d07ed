"""Bad shardings: run by test_spmd.py."""

import torch
from raises import raises
from start import ROWS

import torch_go_xla.runtime as xr
from torch_go_xla._backend import partitioning

xr.use_spmd()

x = torch.zeros(5, 3).to("xla")
for mark in (partitioning.annotate, partitioning.annotate_):
    raises(ValueError, "names more devices than there are: 8", mark, x, "{devices=[4,4]<=[16]}")
    raises(ValueError, "names 4 of 8 devices", mark, x, "{devices=[2,2]<=[4]}")
    raises(ValueError, "is for 1 dimension(s), the tensor has sizes [5, 3]", mark, x, "{devices=[8]<=[8]}")
    raises(ValueError, "rubbish", mark, x, "rubbish")
    raises(ValueError, "manual", mark, x, "{manual}")
    raises(RuntimeError, "expected an xla tensor", mark, torch.zeros(2), ROWS)
assert x.tolist() == torch.zeros(5, 3).tolist()
