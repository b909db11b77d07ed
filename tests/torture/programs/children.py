"""Forks a child for each line; see `tests.torture._children`."""

import os
import sys

import numpy
import torch

for line in sys.stdin:
    pid = os.fork()
    if not pid:
        from tests.torture._children import child

        child(line)
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
