"""Many threads on shared and own tensors, forks in the middle, exits with work in flight.

``THREAD_SECONDS`` is how long the threads run; `make threads` takes 60.
"""

from __future__ import annotations

import io
import os
import threading
import time

import pytest
import torch

import torch_go_xla
import torch_go_xla.core.xla_model as xm

SECONDS = float(os.environ.get("THREAD_SECONDS", "4"))


@pytest.mark.slow
def test_threads_trace_sync_and_save_at_once() -> None:
    """What a thread alone writes has its values always; what all write to is never torn."""
    shared = torch.zeros(64, device="xla")
    total = [0]
    lock = threading.Lock()
    failures: list[BaseException] = []
    end = time.monotonic() + SECONDS

    def work(number: int) -> None:
        own = torch.full((8,), float(number), device="xla")
        weight = torch.ones(8, device="xla", requires_grad=True)
        rounds = 0
        while time.monotonic() < end:
            rounds += 1
            own.add_(1)
            view = own[::2]
            view.mul_(2).div_(2)
            (weight * own).sum().backward()
            with lock:
                shared.add_(1)
                total[0] += 1
            match (rounds + number) % 4:
                case 0:
                    torch_go_xla.sync()
                case 1:
                    torch_go_xla._XLAC._xla_sync_multi([own])
                case 2:
                    file = io.BytesIO()
                    xm.save({"own": own, "view": view, "shared": shared, "grad": weight.grad}, file)
                    file.seek(0)
                    loaded = torch.load(file)
                    assert (loaded["own"] == number + rounds).all(), loaded["own"]
                    assert (loaded["view"] == number + rounds).all(), loaded["view"]
                    assert (loaded["shared"] == loaded["shared"][0]).all(), loaded["shared"]
                    assert (loaded["grad"] == rounds * number + rounds * (rounds + 1) / 2).all(), loaded["grad"]
            if rounds % 8 == 0:
                own.fill_(number)
                weight.grad = None
                rounds = 0
                torch.manual_seed(number)

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=guarded, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        raise failures[0]
    assert (shared.cpu() == total[0]).all()


EXIT = {
    "while a program compiles": "y = (x @ x).exp().cumsum(0)\ntorch_go_xla.sync()",
    "while a long program compiles": "y = x\nfor i in range(20):\n    y = y.sort(i % 2).values\ntorch_go_xla.sync()",
    "while a long program runs": "y = x\nfor _ in range(99):\n    y = (y @ x).tanh()\ny.tolist()\ny += 1\n"
    "for _ in range(99):\n    y = (y @ x).tanh()\ntorch_go_xla.sync()",
    "with many programs queued": "for i in range(30):\n    x = x * 1.01 + i\n    torch_go_xla.sync()",
    "with ops recorded": "y = x + 1",
    "from a thread that syncs": """
import threading, time
def work():
    y = torch.ones(3, device="xla")
    while True:
        y.add_(1)
        torch_go_xla.sync()
threading.Thread(target=work, daemon=True).start()
time.sleep(0.5)
""",
    "from threads that compile, compute on the CPU and call kernels in Python": """
import threading, time
def work(step):
    k = 0
    while True:
        k += 1
        step(k)
for step in (
    lambda k: ((x @ x).sin().cumsum(0)[: 1 + k % 99].clone(), torch_go_xla.sync()),
    lambda k: torch.ones(64, 64).sin(),
    lambda k: torch.nonzero(x[: k % 5]),
    lambda k: torch.linalg.eigvals(torch.eye(3, device="xla")),
):
    threading.Thread(target=work, args=(step,), daemon=True).start()
time.sleep(1)
""",
    "before a handler that uses a thread": """
import atexit, queue, threading
asked, answers = queue.Queue(), queue.Queue()
def work():
    while True:
        answers.put((asked.get() + 1).tolist())
threading.Thread(target=work, daemon=True).start()
def finish():
    asked.put(x[0, :2])
    assert answers.get(timeout=60) == [2, 2]
atexit.register(finish)
""",
    "with a snapshot held": "out = torch.from_dlpack(x)",
}


@pytest.mark.parametrize("how", EXIT)
def test_exit(ok, how: str) -> None:
    program = "import torch, torch_go_xla\nx = torch.ones(300, 300, device='xla')\n"
    assert ok(program + EXIT[how] + "\nprint('end')").strip() == "end"


FORK = """
import os, sys, threading, torch, torch_go_xla
x = torch.ones(4, device="xla")
stop = threading.Event()
def trace():
    y = torch.ones(4, device="xla")
    while not stop.is_set():
        y.add_(1)
        torch_go_xla.sync()
thread = threading.Thread(target=trace)
thread.start()
for _ in range(5):
    x.add_(1)
    child = os.fork()
    if child == 0:
        try:
            x + 1
        except torch_go_xla.ForkedProcessError:
            del x
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
stop.set()
thread.join()
print(x.tolist())
"""


def test_forks_while_tracing(ok) -> None:
    """The children refuse the device, and end; the parent goes on."""
    assert ok(FORK).strip() == "[6.0, 6.0, 6.0, 6.0]"


class Numbers(torch.utils.data.Dataset):
    """A data set for worker processes."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, i: int) -> torch.Tensor:
        return torch.full((2,), float(i))


def test_data_loader_workers_are_forked() -> None:
    weight = torch.ones(2, device="xla")
    loader = torch.utils.data.DataLoader(Numbers(), batch_size=4, num_workers=2, multiprocessing_context="fork")
    seen = [(batch.to("xla") * weight).sum().item() for batch in loader]
    assert seen == [12, 44, 76]
