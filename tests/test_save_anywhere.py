"""Saves where locks are held and threads cannot be had: in signal handlers, while and after the interpreter exits."""

from __future__ import annotations

from pathlib import Path

import pytest

START = """
import atexit, os, signal, sys, threading, time, torch, torch_go_xla
import torch_go_xla.core.xla_model as xm
import torch_go_xla.utils.serialization as xser
import torch_go_xla.utils.safetensors as xst
from safetensors.torch import load_file
from torch_go_xla.experimental.distributed_checkpoint import CheckpointManager
folder = FOLDER
x = torch.arange(3 << 20, device="xla")
manager = CheckpointManager(folder + "/steps", 1, chkpt_on_preemption=False)

def save_files(name):
    xm.save({"x": x}, f"{folder}/{name}.pt")
    xser.save({"x": x}, f"{folder}/{name}.xser")
    xst.save_file({"x": x}, f"{folder}/{name}.safetensors")

def save_all(name):
    save_files(name)
    manager.save(int(name), {"x": x})
    manager.save_async(int(name) + 1, {"x": x})

def check_files(name):
    want = torch.arange(3 << 20)
    assert torch.equal(torch.load(f"{folder}/{name}.pt")["x"], want)
    assert torch.equal(xser.load(f"{folder}/{name}.xser")["x"], want)
    assert torch.equal(load_file(f"{folder}/{name}.safetensors")["x"], want)

def check_steps(name):
    want = torch.arange(3 << 20)
    for step in (int(name), int(name) + 1):
        state = {"x": torch.zeros_like(want)}
        manager.restore(step, state)
        assert torch.equal(state["x"], want)
"""


def program(text: str, folder: Path) -> str:
    return START.replace("FOLDER", repr(str(folder))) + text


def test_in_a_signal_handler_while_the_main_thread_saves(ok, tmp_path: Path) -> None:
    """As a cluster's preemption handler does. Handlers come at random moments; a bound ends what hangs."""
    ok(
        program(
            """
import faulthandler, random
faulthandler.dump_traceback_later(120, exit=True)
handled = 0

def handler(*args):
    global handled
    save_all("10")
    handled += 1

signal.signal(signal.SIGALRM, handler)
chance = random.Random(0)
kinds = [
    lambda: xm.save({"x": x}, folder + "/10.pt"),
    lambda: xser.save({"x": x}, folder + "/10.xser"),
    lambda: xst.save_file({"x": x}, folder + "/10.safetensors"),
    lambda: manager.save(10, {"x": x}),
    lambda: manager.save_async(10, {"x": x}),
]
for i in range(20):
    signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.0001, 0.02))
    while handled == i:
        kinds[i % len(kinds)]()
manager.join()
check_files("10")
check_steps("10")
""",
            tmp_path,
        ),
        timeout=200,
    )


HELD = """
import faulthandler
faulthandler.dump_traceback_later(60, exit=True)
fired = []

def handler(*args):
    fired.append(1)
    {call}

signal.signal(signal.SIGUSR1, handler)

def tracing(frame, event, arg):
    # A signal at each line of the functions that hold what the handler needs.
    if frame.f_code.co_name in {names}:
        frame.f_trace_lines = True
        if event == "line" and len(fired) < 200:
            sys.settrace(None)
            os.kill(os.getpid(), signal.SIGUSR1)
            sys.settrace(tracing)
        return tracing
    return None

sys.settrace(tracing)
{work}
sys.settrace(None)
assert len(fired) > {least}, len(fired)
"""


@pytest.mark.parametrize(
    ("call", "names", "work", "least"),
    [
        (
            "torch_go_xla.sync(); torch.from_dlpack(numpy.ones(2), device='xla')",
            ("borrow", "_take_back"),
            "import numpy; y = torch.from_dlpack(numpy.ones(1 << 20), device='xla'); torch_go_xla.sync()",
            5,
        ),
        (
            "xm.save([x[:5].clone()], folder + '/a.pt')",
            ("_hand_over", "_start", "_reclaim", "finish", "close", "result"),
            "xm.save([x], folder + '/a.pt'); assert torch.load(folder + '/a.pt')[0].numel() in (5, 3 << 20)",
            20,
        ),
        (
            "manager.save_async(5, {'x': x[:5].clone()}); manager.join()",
            ("save_async", "_in_background", "_in_first", "_new_part"),
            "manager.save_async(5, {'x': x[:5].clone()}); manager.save(5, {'x': x[:5].clone()}); manager.join()",
            5,
        ),
    ],
    ids=["sync", "xm.save", "CheckpointManager"],
)
def test_a_signal_at_each_line_that_holds_something(ok, call: str, names: str, work: str, least: int, tmp_path) -> None:
    ok(program(HELD.format(call=call, names=names, work=work, least=least), tmp_path), timeout=120)


def test_in_exit_handlers_and_after_the_main_thread(ok, tmp_path: Path) -> None:
    """Also in a handler that was there before torch, which has torch's own kernels no more: files, but no steps."""
    ok(
        "import atexit\natexit.register(lambda: save_files('10'))\n"
        + program(
            """
atexit.register(lambda: save_all("20"))

def late():
    threading.main_thread().join()
    save_all("30")

threading.Thread(target=late).start()
for step in range(40, 43):
    manager.save_async(step, {"x": x})
""",
            tmp_path,
        )
    )
    ok(
        program(
            "[check_files(n) for n in ('10', '20', '30')]; [check_steps(n) for n in ('20', '30', '40', '41')]", tmp_path
        )
    )
