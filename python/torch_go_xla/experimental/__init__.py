"""What torch_xla has in ``torch_xla.experimental``."""

from .._lazy import submodules

__getattr__ = submodules(__name__)
