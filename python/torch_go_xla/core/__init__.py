"""Core functions, as torch_xla's ``torch_xla.core``."""
