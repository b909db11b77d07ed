"""Saves in handlers of signals, at random moments of others; a bound ends what hangs."""

import faulthandler
import random
import signal

from files import check_files, check_steps, folder, manager, save_all, save_files, x

import torch_go_xla
import torch_go_xla.core.xla_model as xm
import torch_go_xla.utils.safetensors as xst
import torch_go_xla.utils.serialization as xser

faulthandler.dump_traceback_later(120, exit=True)
handled = 0


def handler(*args):
    global handled
    save_all("10")
    handled += 1


signal.signal(signal.SIGALRM, handler)
chance = random.Random(0)
kinds = [
    lambda: xm.save({"x": x}, folder + "/10.pt"),
    lambda: xser.save({"x": x}, folder + "/10.xser"),
    lambda: xst.save_file({"x": x}, folder + "/10.safetensors"),
    lambda: manager.save(10, {"x": x}),
    lambda: manager.save_async(10, {"x": x}),
]
for i in range(20):
    signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.0001, 0.02))
    while handled == i:
        kinds[i % len(kinds)]()
manager.join()
check_files("10")
check_steps("10")
