"""Whether the guard written in Python is asked; an argument makes torch one whose guards are not known."""

import sys

import torch

if sys.argv[1:]:
    torch.__version__ = "2.99.0"
import torch_go_xla

asked = []
guard = next(g for g in torch._C._acc.DeviceGuard.__subclasses__() if g.__module__.startswith("torch_go_xla"))
answer = guard.type_
guard.type_ = lambda self: asked.append(1) or answer()
x = torch.ones(3, device="xla", requires_grad=True)
(x * 2).sum().backward()
assert x.grad.tolist() == [2, 2, 2]
assert torch.autograd.grad(x.exp().sum(), x)[0].device == torch.device("xla:0")
print("asked" if asked else "not asked")
