"""A process that is killed in the midst of a file."""

import os
import signal
import sys

import torch

import torch_go_xla
from torch_go_xla.utils import whole_file

if os.fork() == 0:
    with whole_file.replacing(sys.argv[1]) as file:
        file.write(b"half")
        os.kill(os.getpid(), signal.SIGKILL)
os.wait()
