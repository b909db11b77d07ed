"""Files in a folder in which none can be made."""

import os

import torch
from rights import data, fails, folder, path
from safetensors.torch import load_file

import torch_go_xla.core.xla_model as xm
import torch_go_xla.utils.safetensors as xst
from torch_go_xla.utils import whole_file

fails(Exception, lambda: xm.save([2, lambda: 0], path))
assert torch.load(path) == [1]
with whole_file.replacing(path) as file:
    file.write(b"first")
    fails(BlockingIOError)
    assert torch.load(path) == [1]
xm.save(data, path)
assert torch.equal(torch.load(path)[0], data[0].cpu())
xm.save([2], path)
assert torch.load(path) == [2]
xst.save_file({"x": data[0][:5].clone()}, path)
assert load_file(path)["x"].tolist() == [0, 1, 2, 3, 4]
fails(PermissionError, lambda: xm.save([2], path + ".new"))
