"""A process of a job that adds up numbers and keeps checkpoints; see `tests.torture.jobs`."""

import contextlib
import datetime
import os
import random
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist

import torch_go_xla
import torch_go_xla.core.xla_model as xm
import torch_go_xla.runtime as xr
from torch_go_xla.experimental.distributed_checkpoint import CheckpointManager

r, n = xr.global_ordinal(), xr.world_size()
usual = sys.excepthook


def hook(kind, *rest):
    if kind is KeyboardInterrupt:
        print("interrupted", time.monotonic(), flush=True)
    usual(kind, *rest)


sys.excepthook = hook
attempt, deaths = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), int(os.environ.get("DEATHS", "0"))
print("opens", flush=True)
torch.ones(1, device="xla").cpu()
# What listens by now is this package's; gloo, which trusts what connects, comes with the process group.
own = set()
for f in os.listdir("/proc/self/fd"):
    with contextlib.suppress(OSError):
        own.add(os.readlink(f"/proc/self/fd/{f}"))
rows = [line.split() for line in open("/proc/net/tcp").read().splitlines()[1:]]
ports = [int(row[1].split(":")[1], 16) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in own]
print("ports", *ports, flush=True)
timeout = datetime.timedelta(seconds=int(os.environ["TIMEOUT"]))
dist.init_process_group("xla", init_method="xla://", timeout=timeout)
manager = CheckpointManager(os.environ["CHECKPOINT"], 1, max_to_keep=2, chkpt_on_preemption=False)
state = {"count": torch.zeros(int(os.environ["SIZE"])).to("xla")}
first = 0
if steps := manager.all_steps():
    manager.restore(max(steps), state)
    first = max(steps) + 1
try:
    last = first + 2 if deaths and attempt == deaths else int(os.environ["STEPS"])
    for step in range(first, last):
        assert state["count"].unique().tolist() == [float(step)], state["count"]
        state["count"].add_(xm.all_reduce("sum", torch.ones_like(state["count"])) / n)
        manager.save(step, state)
        assert xm.rendezvous("step", str(step).encode()) == [str(step).encode()] * n
        print("step", step, flush=True)
        if step == first and attempt < deaths and r == attempt % n:
            print(f"attempt {attempt} ends\n", end="", flush=True)
            moment = random.Random(attempt).random() ** 2
            threading.Timer(moment, os.kill, (os.getpid(), signal.SIGKILL)).start()
except RuntimeError as e:
    print("told", str(e).replace("\n", " "), flush=True)
    assert (torch.ones(2, device="xla") + 1).tolist() == [2, 2]
    sys.exit(3)
print("finished", flush=True)
