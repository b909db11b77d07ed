"""Add to a count that the processes keep together, save it, and work until the job changes its size or is to end.

The folder LOG has a file for each step and process: the size of the job, and the count before and after.
"""

import os
import pathlib
import time

import torch
import torch.distributed as dist
from start import n, r

import torch_go_xla.core.xla_model as xm
from torch_go_xla.experimental.distributed_checkpoint import CheckpointManager

dist.init_process_group("xla", init_method="xla://")
log = pathlib.Path(os.environ["LOG"])
manager = CheckpointManager(os.environ["CHECKPOINT"], 1, max_to_keep=2, chkpt_on_preemption=False)
state = {"count": torch.zeros(4).to("xla")}
step = 0
if steps := manager.all_steps():
    step = max(steps) + 1
    manager.restore(max(steps), state)
before = state["count"].tolist()[0]
state["count"].add_(xm.all_reduce("sum", torch.ones(4, device="xla")))
manager.save(step, state)
xm.rendezvous("saved")
part = log / f".{step}.{r}"
part.write_text(f"{n} {before} {state['count'].tolist()[0]}")
part.rename(log / part.name[1:])
# A process whose peer has died fails here: its agent then starts the job again.
while xm.all_reduce("sum", torch.tensor(float((log / "end").exists()), device="xla")).item() < n:
    time.sleep(0.1)
