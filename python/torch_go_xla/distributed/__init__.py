"""Programs over many devices."""

from .._lazy import submodules

__getattr__ = submodules(__name__)
