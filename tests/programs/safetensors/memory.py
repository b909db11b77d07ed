"""How much more memory the host needs to save 160 MB."""

import resource
import sys

import torch

import torch_go_xla
import torch_go_xla.utils.safetensors as xst

tensors = {f"p{i}": torch.full((2 << 20,), float(i), device="xla") for i in range(20)}
torch_go_xla.sync(wait=True)
xst.save_file({"p": tensors["p0"]}, sys.argv[1])


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


start = peak()
xst.save_file(tensors, sys.argv[1])
print(peak() - start)
