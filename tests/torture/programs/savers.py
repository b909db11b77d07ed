"""Forks a child for each line, which is killed as it saves; see `tests.torture.saves`.

Torch is imported once; the device is opened in each child, as it does not survive a fork.
"""

import os
import sys

import torch
import torch.distributed.checkpoint
import torch.distributed.tensor

for line in sys.stdin:
    if not os.fork():
        from tests.torture.saves import killed

        killed(*line.rstrip("\n").split("\t"))
    _, status = os.wait()
    print(status, flush=True)
