"""A wait for a graph that runs op by op is interrupted; the graph's values are there afterwards."""

import os
import signal
import threading
import time

signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background start without
import torch

import torch_go_xla
import torch_go_xla.debug.metrics as met
from torch_go_xla.tiers import set_tier

set_tier("eager")
x = torch.eye(512, device="xla") * 0.5
y = torch.eye(512, device="xla")
for _ in range(600):
    y = (y @ x) * 2


def interrupt():
    time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGINT)


threading.Thread(target=interrupt).start()
try:
    y.sum().item()
except KeyboardInterrupt:
    assert not met.counter_value("InterpretedGraphs"), "the interrupt came after the graph"
    print("interrupted")
print(y.sum().item(), torch.equal(y.cpu(), torch.eye(512)), met.counter_value("UncachedCompile"))
