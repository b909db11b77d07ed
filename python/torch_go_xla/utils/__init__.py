"""Saving and other utilities, as torch_xla's ``torch_xla.utils``."""
