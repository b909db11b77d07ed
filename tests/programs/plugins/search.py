"""Search plugins by name, with a folder of packages: nothing is loaded."""

import os
import sys

import torch

import torch_go_xla
from torch_go_xla import plugins


def mapped():
    return {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}


opened = []
sys.addaudithook(lambda event, args: opened.append(args) if event == "ctypes.dlopen" else None)
before = mapped()
sys.path.insert(0, sys.argv[1])
for name in sys.argv[2:]:
    os.environ["PJRT_DEVICE"] = name
    try:
        plugin = plugins.find_plugin(name)
        print(name, plugin.library_path(), *plugin.preload())
    except (RuntimeError, ValueError) as e:
        print(name, "refused:", e)
assert mapped() == before, mapped() - before
assert not opened, opened
assert not torch_go_xla._core.core.opened
