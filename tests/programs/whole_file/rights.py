"""What the programs about rights begin with."""

import os
import sys

import torch
from safetensors.torch import load_file

import torch_go_xla
import torch_go_xla.core.xla_model as xm
import torch_go_xla.utils.safetensors as xst
from torch_go_xla.utils import whole_file

folder = sys.argv[1]
path = os.path.join(folder, "a.pt")
data = [torch.arange(1 << 20, device="xla")]


def fails(error, save=lambda: xm.save([2], path)):
    try:
        save()
    except error as e:
        return e
    raise AssertionError("no error")
