"""The process ends in the midst of something, which the argument names."""

import atexit
import queue
import sys
import threading
import time

import torch

import torch_go_xla

x = torch.ones(300, 300, device="xla")


def while_a_program_compiles():
    y = (x @ x).exp().cumsum(0)
    torch_go_xla.sync()
    return y


def while_a_long_program_compiles():
    y = x
    for i in range(20):
        y = y.sort(i % 2).values
    torch_go_xla.sync()
    return y


def while_a_long_program_runs():
    y = x
    for _ in range(99):
        y = (y @ x).tanh()
    y.tolist()
    y += 1
    for _ in range(99):
        y = (y @ x).tanh()
    torch_go_xla.sync()
    return y


def with_many_programs_queued():
    global x
    for i in range(30):
        x = x * 1.01 + i
        torch_go_xla.sync()


def with_ops_recorded():
    return x + 1


def from_a_thread_that_syncs():
    def work():
        y = torch.ones(3, device="xla")
        while True:
            y.add_(1)
            torch_go_xla.sync()

    threading.Thread(target=work, daemon=True).start()
    time.sleep(0.5)


def from_threads_that_compile_compute_on_the_cpu_and():
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


def before_a_handler_that_uses_a_thread():
    asked, answers = queue.Queue(), queue.Queue()

    def work():
        while True:
            answers.put((asked.get() + 1).tolist())

    threading.Thread(target=work, daemon=True).start()

    def finish():
        asked.put(x[0, :2])
        assert answers.get(timeout=60) == [2, 2]

    atexit.register(finish)


def with_a_snapshot_held():
    return torch.from_dlpack(x)


held = globals()[sys.argv[1]]()
print("end")
