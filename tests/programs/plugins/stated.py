"""Stated: run by test_plugins.py."""

import os

import torch_go_xla.core.xla_model as xm
import torch_go_xla.runtime as xr
from torch_go_xla import plugins


class Mine(plugins.DevicePlugin):
    def library_path(self):
        return os.environ["LIBRARY"]

    def client_create_options(self):
        return {"devices": 3}

    def environment(self):
        return {"NULL_PJRT_MEMORY_LIMIT": "1000", "NULL_PJRT_DELAY_US": "5"}


plugins.register_plugin("mine", Mine())
print(xr.addressable_device_count(), xm.get_memory_info("xla:0")["bytes_limit"], os.environ["NULL_PJRT_DELAY_US"])
