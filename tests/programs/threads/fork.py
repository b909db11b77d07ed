"""Fork: run by test_threads.py."""

import os
import threading

import torch

import torch_go_xla

x = torch.ones(4, device="xla")
stop = threading.Event()


def trace():
    y = torch.ones(4, device="xla")
    while not stop.is_set():
        y.add_(1)
        torch_go_xla.sync()


thread = threading.Thread(target=trace)
thread.start()
for _ in range(5):
    x.add_(1)
    child = os.fork()
    if child == 0:
        try:
            x + 1
        except torch_go_xla.ForkedProcessError:
            del x
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
stop.set()
thread.join()
print(x.tolist())
