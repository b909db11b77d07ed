"""A folder whose names cannot be read."""

import os

import torch
from rights import data, fails, folder, path

import torch_go_xla.core.xla_model as xm
import torch_go_xla.utils.serialization as xser

for value in (1.0, 2.0):
    xm.save([value], path)
    xser.save([torch.full((2,), value, device="xla")], path + ".xser")
    assert torch.load(path) == [value] and xser.load(path + ".xser")[0].tolist() == [value, value]
