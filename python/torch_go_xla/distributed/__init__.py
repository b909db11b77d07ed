"""Programs over many devices."""

from .._submodules import submodules

__all__: list[str] = []

__getattr__ = submodules(__name__)
