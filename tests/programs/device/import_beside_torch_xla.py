"""Import beside torch xla: run by test_device.py."""

import sys
import types

sys.modules["torch_xla"] = types.ModuleType("torch_xla")
try:
    import torch_go_xla
except ImportError as e:
    print(e)
