"""Two aliases agree after two syncs; with an argument, it also says whether one device is made of all."""

import sys

import torch

import torch_go_xla
import torch_go_xla.core.xla_model as xm
import torch_go_xla.runtime as xr

t1 = torch.tensor([1], device=xm.xla_device())
t2 = t1.detach()
xm.mark_step()
t2.add_(t2)
xm.mark_step()
t1_cpu, t2_cpu = torch_go_xla._XLAC._xla_get_cpu_tensors([t1, t2])
assert t1.item() == t1_cpu.item() == 2, (t1.item(), t1_cpu)
assert t2.item() == t2_cpu.item() == 2, (t2.item(), t2_cpu)
print("equal")
if sys.argv[1:]:
    print(xr.is_spmd(), xr.global_device_count())
