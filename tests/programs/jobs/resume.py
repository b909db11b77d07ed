"""Add one to a count that the processes keep together, and, but for the last attempt, die."""

import os
import signal
import time

import torch
import torch.distributed as dist
from start import n, r

import torch_go_xla.core.xla_model as xm
from torch_go_xla.experimental.distributed_checkpoint import CheckpointManager

dist.init_process_group("xla", init_method="xla://")
attempt, attempts = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), int(os.environ["ATTEMPTS"])
manager = CheckpointManager(os.environ["CHECKPOINT"], 1, max_to_keep=2, chkpt_on_preemption=False)
state = {"count": torch.zeros(4).to("xla")}
if steps := manager.all_steps():
    assert max(steps) == attempt - 1, (steps, attempt)
    manager.restore(max(steps), state)
assert state["count"].tolist() == [float(n * attempt)] * 4
state["count"].add_(xm.all_reduce("sum", torch.ones(4, device="xla")))
manager.save(attempt, state)
xm.rendezvous("saved")
if attempt < attempts:
    os.kill(os.getpid(), signal.SIGKILL) if r == attempt % n else time.sleep(600)
print("count", state["count"].tolist()[0], flush=True)
