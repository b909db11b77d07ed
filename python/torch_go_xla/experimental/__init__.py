"""What torch_xla has in ``torch_xla.experimental``."""

from .._submodules import submodules
from .eager import eager_mode, eager_mode_context, is_eager_mode

__all__ = ["eager_mode", "eager_mode_context", "is_eager_mode"]

__getattr__ = submodules(__name__)
