"""What fully sharded data parallelism needs besides the wrapper itself, which is `torch_go_xla.experimental`'s."""

from typing import Any

from torch import nn

from .utils import checkpoint_module

__all__ = ["XlaFullyShardedDataParallel", "checkpoint_module"]


class XlaFullyShardedDataParallel(nn.Module):
    """torch_xla's first wrapper, which shards over processes; libraries import its name. NotImplementedError."""

    def __init__(self, module: nn.Module, *args: Any, **options: Any) -> None:
        raise NotImplementedError(
            "XlaFullyShardedDataParallel: use torch.distributed.fsdp.fully_shard over processes, or "
            "torch_go_xla.experimental.spmd_fully_sharded_data_parallel over the devices of SPMD (xla_fsdp_v2)"
        )
