"""KeyboardInterrupt comes while a compiler works, with SPMD too; what was computed and recorded is there afterwards."""

from __future__ import annotations

import pytest

SPMD = {"CPU_NUM_DEVICES": "2", "XLA_USE_SPMD": "1"}

# A call is interrupted while its program compiles: no compile has ended by then. What is next waits for that.
INTERRUPTED = """
import os, signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background start without
import torch, torch_go_xla
import torch_go_xla.debug.metrics as met
def compiled():
    data = met.metric_data("CompileTime")
    return data[0] if data else 0
x = torch.ones(8, 8, device="xla")
x.sum().item()
y = x / 8
for i in range(60):
    y = torch.sin(y @ x) / 8 + i * 0.001
z = y + 1
before, begun = compiled(), met.counter_value("UncachedCompile")
def interrupt():
    while met.counter_value("UncachedCompile") == begun:
        time.sleep(0.005)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    CALL
except KeyboardInterrupt:
    assert compiled() == before, "the interrupt came after the compile"
    print("interrupted")
print(x.sum().item())
torch_go_xla.sync()
def expected():
    x = torch.ones(8, 8)
    y = x / 8
    for i in range(60):
        y = torch.sin(y @ x) / 8 + i * 0.001
    return y
torch.testing.assert_close(y.cpu(), expected())
torch.testing.assert_close(z.cpu(), expected() + 1)
print("good")
"""

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


@pytest.mark.parametrize("call", CALLS)
def test_while_a_partitioned_program_compiles(ok, call: str) -> None:
    assert ok(INTERRUPTED.replace("CALL", CALLS[call]), **SPMD).split() == ["interrupted", "64.0", "good"]


def test_while_a_program_compiles(ok) -> None:
    assert ok(INTERRUPTED.replace("CALL", CALLS["item"])).split() == ["interrupted", "64.0", "good"]


THREADS = """
import os, signal, threading
import torch, torch_go_xla
x = torch.arange(64.0, device="xla").reshape(8, 8) / 512
failures = []
def work(number):
    try:
        for k in range(1, 6):
            y = x
            for _ in range(3 + k):
                y = torch.sin(y @ x) / (k + number)
            torch_go_xla.sync()
            y += k
            z = torch.arange(64.0).reshape(8, 8) / 512
            c = z
            for _ in range(3 + k):
                c = torch.sin(c @ z) / (k + number)
            torch.testing.assert_close(y.cpu(), c + k)
    except BaseException as e:
        failures.append(repr(e)[-300:])
threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
for t in threads: t.start()
for t in threads: t.join()
print(failures)
"""


def test_threads_that_compile_partitioned_programs(ok) -> None:
    """Nothing is recorded while a program compiles whose results' shardings are not known."""
    assert ok(THREADS, **SPMD).strip() == "[]"
