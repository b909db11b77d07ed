"""KeyboardInterrupt comes while a compiler works, with SPMD too; what was computed and recorded is there afterwards."""

from __future__ import annotations

import collections
import ctypes
import functools
import operator
import signal
import subprocess
import sys
import time

import processes
import pytest
import torch

pytestmark = pytest.mark.xdist_group("processes")

SPMD = {"CPU_NUM_DEVICES": "2", "XLA_USE_SPMD": "1"}

# What is next waits for the compile.

CALLS = {
    "sync": "torch_go_xla.sync()",
    "mark": "torch_go_xla.core.xla_model.mark_step()",
    "item": "y.sum().item()",
    "cpu": "y.cpu()",
    "save": "torch_go_xla.core.xla_model.save([y], os.devnull)",
    "some": "torch_go_xla._XLAC._xla_sync_multi([y])",
    "op meanwhile": "threading.Thread(target=torch_go_xla.sync).start(); time.sleep(0.3); y = y.clone(); y.cpu()",
    "size": "torch.nonzero(y > 100)",
}


@pytest.mark.sampled
@pytest.mark.parametrize("call", CALLS)
def test_while_a_partitioned_program_compiles(ok, call: str) -> None:
    assert ok("interrupt/interrupted.py", CALLS[call], **SPMD).split() == ["interrupted", "64.0", "good"]


@pytest.mark.compiled
def test_while_a_program_compiles(ok) -> None:
    assert ok("interrupt/interrupted.py", CALLS["item"]).split() == ["interrupted", "64.0", "good"]


def test_while_a_graph_runs_op_by_op(ok) -> None:
    assert ok("interrupt/op_by_op.py").split() == ["interrupted", "512.0", "True", "None"]


@pytest.mark.compiled
def test_while_a_bundle_loads(ok) -> None:
    assert ok("interrupt/bundle.py").split() == ["good"]


def test_threads_that_compile_partitioned_programs(ok) -> None:
    """Nothing is recorded while a program compiles whose results' shardings are not known."""
    assert ok("interrupt/threads.py", **SPMD).strip() == "[]"


@pytest.mark.slow
@pytest.mark.parametrize("call", ["sync", "compile"])
def test_while_the_device_is_busy(call: str) -> None:
    """An interrupt does not wait for a step that runs, and a second one ends the process, whatever is on its way."""
    program = [sys.executable, processes.PROGRAMS / "interrupt" / "running.py", call]
    p = subprocess.Popen(program, env=processes.environment(), stdout=subprocess.PIPE, text=True)
    assert p.stdout is not None
    step = float(p.stdout.readline())
    time.sleep(0.3 * step)
    sent = time.monotonic()
    p.send_signal(signal.SIGINT)
    seen = float(p.stdout.readline())
    assert seen - sent < 0.5 * step
    time.sleep(0.2)
    assert p.poll() is None, "nothing was on its way"
    p.send_signal(signal.SIGINT)
    assert p.wait(max(2.0, step)) in (128 + signal.SIGINT, -signal.SIGINT)


def exported() -> object:
    return torch.from_dlpack(torch.ones(3, device="xla") + 1)


@pytest.mark.parametrize("made", [exported, lambda: torch.Generator("xla")], ids=["memory", "generator"])
def test_as_an_object_ends(made, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt that comes as an object ends is raised: Python would drop it in a finalizer."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    dropped = []
    monkeypatch.setattr(sys, "unraisablehook", dropped.append)
    held = [made()]
    steps = (functools.partial(ctypes.CDLL(None)["raise"], signal.SIGINT), held.clear)
    try:
        with pytest.raises(KeyboardInterrupt):
            collections.deque(map(operator.call, steps), 0)  # no Python runs between the signal and the end
    finally:
        signal.signal(signal.SIGINT, before)
    assert not held and not dropped
