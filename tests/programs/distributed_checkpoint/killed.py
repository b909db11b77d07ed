"""A save that is killed at the k-th call of a function."""

import os
import shutil
import signal
import sys
from pathlib import Path

from experimental.test_distributed_checkpoint import state

from torch_go_xla.experimental.distributed_checkpoint import CheckpointManager
from torch_go_xla.utils import whole_file

folder, module, NAME, count, step = sys.argv[1:]
manager = CheckpointManager(folder, 1, max_to_keep=3, chkpt_on_preemption=False)
MODULE, COUNT = {"Path": Path, "shutil": shutil, "whole_file": whole_file}[module], int(count)
original = getattr(MODULE, NAME)


def act(*args, **options):
    global COUNT
    if not COUNT:
        os.kill(os.getpid(), signal.SIGKILL)
    COUNT -= 1
    return original(*args, **options)


setattr(MODULE, NAME, act)
manager.save(int(step), state(20))
