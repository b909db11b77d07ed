"""Fully sharded data parallelism over processes, by torch_xla's first wrapper: ``torch_xla.distributed.fsdp``."""

from .fully_sharded import XlaFullyShardedDataParallel
from .utils import checkpoint_module

__all__ = ["XlaFullyShardedDataParallel", "checkpoint_module"]
