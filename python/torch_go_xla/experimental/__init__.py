"""What torch_xla has in ``torch_xla.experimental``."""
