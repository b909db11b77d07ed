"""Print how many threads a long op makes, and how many of them are gone when they have had nothing to do."""

import os
import threading
import time

import torch

import torch_go_xla


def threads() -> set[str]:
    return set(os.listdir("/proc/self/task"))


made: set[str] = set()
over = threading.Event()


def watch() -> None:
    while not over.wait(0.001):
        made.update(threads())


torch.set_num_threads(2)
x = torch.rand(256, 1 << 13).to("xla")
torch_go_xla.sync(wait=True)
watcher = threading.Thread(target=watch)
watcher.start()
before = threads()
y = torch.sort(x)  # long: in the thread of torch's kernels
torch_go_xla.sync(wait=True)
over.set()
watcher.join()
made -= before
until = time.monotonic() + 60
while made <= threads() and time.monotonic() < until:
    time.sleep(0.01)
print(len(made), len(made - threads()))
