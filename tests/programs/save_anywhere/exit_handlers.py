"""Saves in handlers of the exit, one of them from before torch's import, and after the main thread."""

import atexit
import threading

atexit.register(lambda: save_files("10"))
from files import check_files, check_steps, folder, manager, save_all, save_files, x

import torch_go_xla
import torch_go_xla.core.xla_model as xm
import torch_go_xla.utils.safetensors as xst
import torch_go_xla.utils.serialization as xser

atexit.register(lambda: save_all("20"))


def late():
    threading.main_thread().join()
    save_all("30")


threading.Thread(target=late).start()
for step in range(40, 43):
    manager.save_async(step, {"x": x})
