"""Saving and other utilities, as torch_xla's ``torch_xla.utils``."""

from .._submodules import submodules

__all__: list[str] = []

__getattr__ = submodules(__name__)
