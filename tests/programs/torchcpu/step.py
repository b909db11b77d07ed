"""Which ops of a training step torch's kernels compute; its gradient; the programs read from the cache."""

import sys

import torch
import torch.nn.functional as F

import torch_go_xla
import torch_go_xla.debug.metrics as met
from torch_go_xla import _XLAC

torch.manual_seed(0)
x, w = torch.randn(4, 16, 64, 64).to("xla"), torch.randn(16, 16, 3, 3).to("xla").requires_grad_()
F.max_pool2d(F.conv2d(x, w), 2).square().mean().backward()
text = _XLAC._get_xla_tensors_hlo([w.grad])
print(*sorted(name for name in sys.argv[1:] if f'op = "{name}"' in text), sep=",")
print(float(w.grad.sum()))
print(met.counter_value("PersistentCacheHit") or 0)
