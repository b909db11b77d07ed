"""One device is enough: run by test_spmd.py."""

import torch
from raises import raises

import torch_go_xla.runtime as xr
from torch_go_xla._backend import partitioning

xr.use_spmd()

x = torch.arange(6.0).view(2, 3).to("xla")
partitioning.annotate_(x, "{devices=[1,1]0}")
y = partitioning.annotate(x @ x.t(), "{replicated}")
assert y.tolist() == [[5, 14], [14, 50]] and len(partitioning.shards(y)) == 1
raises(ValueError, "more devices than there are: 1", partitioning.annotate, x, "{devices=[2,1]<=[2]}")
