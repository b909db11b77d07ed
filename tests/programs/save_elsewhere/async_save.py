"""torch's asynchronous distributed checkpoint, while training goes on."""

import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

import torch_go_xla

folder = sys.argv[1]
dist.init_process_group("gloo", init_method="file://" + folder + "/store", rank=0, world_size=1)
x = torch.arange(6.0, device="xla")
future = dcp.async_save({"x": x}, checkpoint_id=folder + "/a")
for _ in range(3):  # training goes on, and donates
    x.add_(1)
    torch_go_xla.sync()
future.result()
out = {"x": torch.zeros(6, device="xla")}
dcp.load(out, checkpoint_id=folder + "/a")
print(out["x"].tolist(), x.tolist())
dist.destroy_process_group()
