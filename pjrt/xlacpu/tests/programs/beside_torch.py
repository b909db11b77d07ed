"""The plugin, then torch, whose threads outlive a fork."""

import os

from vet import vet

vet()
import torch

x = torch.ones(64, 64)
print(float((x @ x).sum()))
pid = os.fork()
if pid == 0:
    os._exit(0 if float((x + 1).sum()) == 8192 else 1)
print(os.waitpid(pid, 0)[1])
