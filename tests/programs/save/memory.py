"""How much more memory the host needs to save 320 MB."""

import resource
import sys

import torch

import torch_go_xla
import torch_go_xla.core.xla_model as xm

tensors = {f"p{i}": torch.full((2 << 20,), float(i), device="xla") for i in range(40)}
torch_go_xla.sync(wait=True)
xm.save({"p": tensors["p0"]}, sys.argv[1])


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


before = peak()
xm.save(tensors, sys.argv[1])
print((peak() - before) >> 20)
