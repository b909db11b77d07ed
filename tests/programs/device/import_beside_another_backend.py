"""Import beside another backend: run by test_device.py."""

import torch

torch.utils.rename_privateuse1_backend("npu")
try:
    import torch_go_xla
except ImportError as e:
    print(e)
