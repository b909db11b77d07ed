"""SPMD: tensors and programs over all devices of the process; torch_xla's ``torch_xla.distributed.spmd``, as ``xs``.

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
from .xla_sharded_tensor import XLAShard, XLAShardedTensor
from .xla_sharding import (
    EinsumLinear,
    HybridMesh,
    MarkShardingFunction,
    Mesh,
    PartitionSpec,
    ShardingSpec,
    ShardingType,
    XLAPatchedLinear,
    _mark_manual_sharding,
    annotate_custom_sharding,
    apply_backward_optimization_barrier,
    apply_xla_patch_to_nn_linear,
    clear_sharding,
    disable_manual_sharding,
    enable_manual_sharding,
    get_1d_mesh,
    get_global_mesh,
    mark_sharding,
    mark_sharding_with_gradients,
    set_global_mesh,
    unwrap_sharded_tensor,
    wrap_as_sharded_tensor,
    wrap_if_sharded,
    xla_patched_nn_linear_forward,
)

__all__ = [
    "EinsumLinear",
    "HybridMesh",
    "MarkShardingFunction",
    "Mesh",
    "PartitionSpec",
    "ShardingSpec",
    "ShardingType",
    "XLAPatchedLinear",
    "XLAShard",
    "XLAShardedTensor",
    "_mark_manual_sharding",
    "annotate_custom_sharding",
    "api",
    "apply_backward_optimization_barrier",
    "apply_xla_patch_to_nn_linear",
    "auto_policy",
    "clear_sharding",
    "disable_manual_sharding",
    "enable_manual_sharding",
    "debugging",
    "get_1d_mesh",
    "get_global_mesh",
    "mark_sharding",
    "mark_sharding_with_gradients",
    "set_global_mesh",
    "unwrap_sharded_tensor",
    "wrap_as_sharded_tensor",
    "wrap_if_sharded",
    "xla_distribute_module",
    "xla_distribute_tensor",
    "xla_patched_nn_linear_forward",
    "xla_sharding",
]
