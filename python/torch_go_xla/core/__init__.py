"""Core functions, as torch_xla's ``torch_xla.core``."""

from .._submodules import submodules

__all__: list[str] = []

__getattr__ = submodules(__name__)
