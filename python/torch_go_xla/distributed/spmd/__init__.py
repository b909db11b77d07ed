"""SPMD: tensors and programs over many devices; torch_xla's ``torch_xla.distributed.spmd``, as ``xs``.

::

    import torch_go_xla.runtime as xr
    import torch_go_xla.distributed.spmd as xs

    xr.use_spmd()
    mesh = xs.Mesh(range(8), (2, 4), ("data", "model"))
    xs.mark_sharding(model.weight, mesh, ("model", None))  # its rows in 4 parts, each on 2 devices
    xs.mark_sharding(batch, mesh, ("data", None))
    loss = step(model, batch)  # XLA partitions the program and puts in what communication it needs
"""

from . import api, debugging, xla_sharding
from .api import auto_policy, xla_distribute_module, xla_distribute_tensor
from .xla_sharded_tensor import XLAShard
from .xla_sharding import *  # noqa: F403 (torch_xla too has all of its names here)
from .xla_sharding import _mark_manual_sharding

__all__ = [
    "XLAShard",
    "_mark_manual_sharding",
    "api",
    "auto_policy",
    "debugging",
    "xla_distribute_module",
    "xla_distribute_tensor",
    "xla_sharding",
]
__all__ += xla_sharding.__all__
