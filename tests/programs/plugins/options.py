"""A plugin with options of many types; the first argument is its library."""

import sys

import torch

import torch_go_xla
from torch_go_xla import plugins


class Mine(plugins.DevicePlugin):
    def library_path(self):
        return sys.argv[1]

    def client_create_options(self):
        return {"devices": self.value}


mine = Mine()
plugins.register_plugin("mine", mine)
for mine.value in ("two", 1 << 40, [1, 2], 1.0, True, 1 << 70, [1, "two"], [1.5], None, {}, object()):
    try:
        torch.ones(1, device="xla")
    except Exception as e:
        print(f"{type(e).__name__}: {e}")
mine.value = 2
print(torch_go_xla.device_count())
