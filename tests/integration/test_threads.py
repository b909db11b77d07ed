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

pytestmark = pytest.mark.xdist_group("processes")

SECONDS = float(os.environ.get("THREAD_SECONDS", "4"))


@pytest.mark.longer
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


EXIT = (
    "while_a_program_compiles",
    "while_a_long_program_compiles",
    "while_a_long_program_runs",
    "with_many_programs_queued",
    "with_ops_recorded",
    "from_a_thread_that_syncs",
    "from_threads_that_compile_compute_on_the_cpu_and",
    "before_a_handler_that_uses_a_thread",
    "with_a_snapshot_held",
)


@pytest.mark.parametrize("how", EXIT)
def test_exit(ok, how: str) -> None:
    assert ok("threads/ends.py", how).strip() == "end"


def test_forks_while_tracing(ok) -> None:
    """The children refuse the device, and end; the parent goes on."""
    assert ok("threads/fork.py").strip() == "[6.0, 6.0, 6.0, 6.0]"


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
