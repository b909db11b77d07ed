"""KeyboardInterrupt comes from every wait for a device that takes ten minutes."""

import os
import signal
import sys
import threading

import null_device
import torch

import torch_go_xla
import torch_go_xla.core.xla_model as xm

null_device.use(sys.argv[1], delay_us=600_000_000)
x = torch.ones(4, device="xla") + 1
torch_go_xla.sync()
signal.signal(signal.SIGINT, signal.default_int_handler)
for wait in (x.tolist, lambda: torch_go_xla.sync(wait=True), xm.wait_device_ops):
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        wait()
    except KeyboardInterrupt:
        print("interrupted")
print((torch.ones(2) + 1).tolist(), flush=True)
os._exit(0)  # no one waits for the device
