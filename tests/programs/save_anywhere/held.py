"""A statement in a handler at each line of functions that hold what it needs, while another statement runs."""

import faulthandler
import os
import signal
import sys

import torch
from files import check_files, check_steps, folder, manager, save_all, save_files, x

import torch_go_xla
import torch_go_xla.core.xla_model as xm
import torch_go_xla.utils.safetensors as xst
import torch_go_xla.utils.serialization as xser

call, names, work, least = sys.argv[2:]
faulthandler.dump_traceback_later(60, exit=True)
fired = []


def handler(*args):
    fired.append(1)
    exec(call)


signal.signal(signal.SIGUSR1, handler)


def tracing(frame, event, arg):
    # A signal at each line of the functions that hold what the handler needs.
    if frame.f_code.co_name in names.split():
        frame.f_trace_lines = True
        if event == "line" and len(fired) < 200:
            sys.settrace(None)
            os.kill(os.getpid(), signal.SIGUSR1)
            sys.settrace(tracing)
        return tracing
    return None


sys.settrace(tracing)
exec(work)
sys.settrace(None)
assert len(fired) > int(least), len(fired)
