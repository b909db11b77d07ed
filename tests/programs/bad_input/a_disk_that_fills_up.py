"""A limit on the size of files stands for the disk."""

import os
import resource
import signal
import sys

import torch

import torch_go_xla
import torch_go_xla.core.xla_model as xm

path = sys.argv[1]
xm.save({"x": torch.ones(3, device="xla")}, path)
before = open(path, "rb").read()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
limits = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
try:
    xm.save({"x": torch.ones(1_000_000, device="xla")}, path)
    print("saved")
except (OSError, RuntimeError) as e:
    print("refused:", e)
resource.setrlimit(resource.RLIMIT_FSIZE, limits)
assert open(path, "rb").read() == before
print(os.listdir(os.path.dirname(path)))
xm.save({"x": torch.full((3,), 2.0, device="xla")}, path)
print(torch.load(path)["x"].tolist())
