"""A vendor's plugin on a machine without its device; an argument has XLA:CPU loaded first."""

import ctypes
import os
import sys

sys.path.append(os.environ["TGX_VENDOR_PACKAGES"])
import torch

import torch_go_xla
from torch_go_xla import plugins

if sys.argv[1:]:
    ctypes.CDLL(plugins.CpuPlugin().library_path())
for _ in range(2):
    try:
        torch.ones(2, device="xla")
    except torch_go_xla.XlaError as e:
        print(e)
print((torch.ones(2) + 1).tolist())
os.environ["PJRT_DEVICE"] = "CPU"
print((torch.ones(2, device="xla") + 1).tolist())
