"""What fully sharded data parallelism needs besides the wrapper itself, which is `torch_go_xla.experimental`'s."""

from .utils import checkpoint_module

__all__ = ["checkpoint_module"]
