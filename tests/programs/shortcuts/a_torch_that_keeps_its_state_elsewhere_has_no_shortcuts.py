"""A torch that keeps its state elsewhere has no shortcuts: run by test_shortcuts.py."""

import torch

keys = torch._C._dispatch_keys


class Elsewhere:
    def __init__(self, tensor):
        self.keys = keys(tensor)

    def raw_repr(self):
        return ~self.keys.raw_repr() & (1 << 64) - 1


torch._C._dispatch_keys = Elsewhere
from torch_go_xla._backend.core import native

x = torch.ones(2, device="xla")
print((x + 1).tolist(), native().fast.shortcuts_taken())
