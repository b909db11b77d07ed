"""torch's timeout bounds a rendezvous with a process that has stopped."""

import datetime
import os
import signal
import time

import torch
import torch.distributed as dist

import torch_go_xla.core.xla_model as xm

dist.init_process_group("xla", init_method="xla://", timeout=datetime.timedelta(seconds=5))
from start import n, r
from told import alone, size, stops, told

t = torch.ones(size, device="xla")
for _ in range(2):
    assert xm.all_reduce("sum", t).sum().item() == n * size
if r == stops:
    os.kill(os.getpid(), signal.SIGSTOP)
began = time.monotonic()
told("", lambda: xm.rendezvous("after"))
alone()
print("told", flush=True)
os._exit(0)
