"""A limit on the size of files stands for a full disk."""

import os
import resource
import signal
import sys

import torch

import torch_go_xla
import torch_go_xla.core.xla_model as xm

path = sys.argv[1]
x = torch.arange(4 << 20, device="xla")
xm.save([1], path)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (9 << 20, 9 << 20))
try:
    xm.save([x], path)
except OSError as e:
    assert "File too large" in str(e), e
else:
    raise AssertionError("saved")
assert torch.load(path) == [1] and os.listdir(os.path.dirname(path)) == ["a.pt"]
assert (x[:3] + 1).tolist() == [1, 2, 3]
