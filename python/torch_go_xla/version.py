"""The version: torch_xla's ``torch_xla.version``."""

from ._version import __version__

__all__ = ["__version__"]
