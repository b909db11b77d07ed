"""A statement, the first argument, is interrupted while its program compiles: no compile has ended by then."""

import os
import signal
import sys
import threading
import time

signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background start without
import torch

import torch_go_xla
import torch_go_xla.debug.metrics as met


def compiled():
    data = met.metric_data("CompileTime")
    return data[0] if data else 0


x = torch.ones(8, 8, device="xla")
x.sum().item()
y = x / 8
for i in range(60):
    y = torch.sin(y @ x) / 8 + i * 0.001
z = y + 1
before, begun = compiled(), met.counter_value("UncachedCompile")


def interrupt():
    while met.counter_value("UncachedCompile") == begun:
        time.sleep(0.005)
    os.kill(os.getpid(), signal.SIGINT)


threading.Thread(target=interrupt).start()
try:
    exec(sys.argv[1])
except KeyboardInterrupt:
    assert compiled() == before, "the interrupt came after the compile"
    print("interrupted")
print(x.sum().item())
torch_go_xla.sync()


def expected():
    x = torch.ones(8, 8)
    y = x / 8
    for i in range(60):
        y = torch.sin(y @ x) / 8 + i * 0.001
    return y


torch.testing.assert_close(y.cpu(), expected())
torch.testing.assert_close(z.cpu(), expected() + 1)
print("good")
