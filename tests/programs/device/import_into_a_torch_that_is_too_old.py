"""Import into a torch that is too old: run by test_device.py."""

import torch

del torch._C._acc
try:
    import torch_go_xla
except ImportError as e:
    print(e)
