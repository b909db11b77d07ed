"""Programs over many devices."""

from .._lazy import submodules

__all__: list[str] = []

__getattr__ = submodules(__name__)
