"""Unnamed: run by test_job.py."""

import os

import torch
import torch.distributed as dist

import torch_go_xla

rank, port = int(os.environ["RANK"]), int(os.environ["MASTER_PORT"])
for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
    del os.environ[name]
alone = torch.ones(1, device="xla")
dist.init_process_group(store=dist.TCPStore("127.0.0.1", port, is_master=False), rank=rank, world_size=2)
t = torch.tensor([rank + 1.0])
dist.all_reduce(t)
dist.barrier()
assert t.item() == 3 and (alone + 1).item() == 2
try:
    dist.all_reduce(alone)
except RuntimeError as e:
    assert "of a job of 1 cannot be rank" in str(e) or rank == 0 and "of a process group of 2" in str(e), e
else:
    raise AssertionError("no error")
