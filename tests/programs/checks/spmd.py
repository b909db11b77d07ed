"""Checks with SPMD: a sharded value is tested as a whole; local values, and what is made of them, are not tested."""

import numpy as np
import torch

import torch_go_xla.distributed.spmd as xs
import torch_go_xla.runtime as xr
from torch_go_xla.debug.checks import checking

xr.use_spmd()
mesh = xs.Mesh(np.arange(4), (4,), ("x",))
x = torch.arange(8.0).to("xla")
xs.mark_sharding(x, mesh, ("x",))
try:
    with checking():
        y = (x - 3).log()
except RuntimeError as e:
    assert str(e).startswith("log made nan of operands without one, first at [0] of its result f32[8]"), e
else:
    raise AssertionError("nothing was raised")
with checking():
    assert (x + 1).log().sum().isfinite()

given = torch.full((8,), torch.nan).to("xla")
xs.mark_sharding(given, mesh, ("x",))
with checking():
    local = xs.enable_manual_sharding(given, ("x",), mesh=mesh)
    whole = xs.disable_manual_sharding(local * 2, ("x",), (8,), mesh=mesh)
    assert whole.isnan().all()
