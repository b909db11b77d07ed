"""How much memory the host needs to save and load 160 MB."""

import resource
import sys

import torch

import torch_go_xla
import torch_go_xla.utils.serialization as xser

tensors = {f"p{i}": torch.full((2 << 20,), float(i), device="xla") for i in range(20)}
torch_go_xla.sync(wait=True)
xser.save({"p": tensors["p0"]}, sys.argv[1])


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


start = peak()
xser.save(tensors, sys.argv[1])
saved = peak()
loaded = xser.load(sys.argv[1], map_location="xla")
torch_go_xla.sync(wait=True)
print(saved - start, peak() - saved)
