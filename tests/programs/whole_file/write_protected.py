"""A file that is write-protected."""

import os

import torch
from rights import data, fails, folder, path

import torch_go_xla.core.xla_model as xm

xm.save([1], path)
os.chmod(path, 0o444)
assert path in str(fails(PermissionError))
assert torch.load(path) == [1] and os.listdir(folder) == ["a.pt"]
