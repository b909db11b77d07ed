"""Starts processes: torch_xla's ``torch_xla.distributed.xla_multiprocessing``, usually imported as ``xmp``."""

from .._launch import spawn

__all__ = ["spawn"]
