"""Saving: in order, streamed, whole or not at all, and readable by torch alone."""

from __future__ import annotations

import io
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path

import null_device
import pytest
import torch

import torch_go_xla
import torch_go_xla.core.xla_model as xm
from torch_go_xla._core import core
from torch_go_xla.utils import serialization, tensor_file, whole_file

# ---- the order of the steps ----


def test_one_sync_a_device_then_a_wait_then_transfers(ok, tmp_path: Path) -> None:
    """What the plugin is called for; reading tensor by tensor, in the wrong order, does not pass the check."""
    library = null_device.build(tmp_path)
    out = ok("save/order.py", library)
    assert out.strip() in ("a transfer before the last program", "3 programs on two devices")


def test_a_snapshot_is_of_one_moment_while_another_thread_writes() -> None:
    """Two storages that are always written together are equal in every snapshot, donation or not."""
    left, right = (torch.zeros(1000, device="xla") for _ in range(2))
    lock, stop = threading.Lock(), threading.Event()

    def write() -> None:
        while not stop.is_set():
            with lock:
                left.add_(1)
                right.add_(1)
            torch_go_xla.sync()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(30):
            file = io.BytesIO()
            with lock:  # a writer between the two adds would be a torn program, not a torn read
                a, b = torch_go_xla._XLAC._xla_get_cpu_tensors([left, right])
                xm.save([left, right], file)
            file.seek(0)
            c, d = torch.load(file, weights_only=True)
            assert torch.equal(a, b) and torch.equal(c, d) and (a[0] == a).all()
    finally:
        stop.set()
        thread.join()


# ---- what is in the file ----


def saved(data: object) -> object:
    file = io.BytesIO()
    xm.save(data, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def test_the_file_is_that_of_torch_save_record_for_record(tmp_path: Path) -> None:
    """The same data on the CPU gives the same records: nested containers, ties, strides, dtypes, leaves."""

    def data(device: str) -> object:
        base = torch.arange(24.0).view(4, 6).to(device)
        weight = torch.nn.Parameter(base[0].clone())
        complex_ = torch.tensor([1 + 2j, 3j]).to(device)
        return {
            "base": base,
            "views": [base.t(), base[1:3, ::2], base.expand(2, 4, 6), base[2, 3]],
            "tied": (weight, weight),
            "ordered": OrderedDict(a=torch.ones(2, dtype=torch.bfloat16).to(device), b=None),
            "types": [
                torch.arange(3).to(device, t)
                for t in (torch.int8, torch.int64, torch.bool, torch.float64, torch.uint16)
            ],
            "conjugated": complex_.conj(),
            "negated": torch._neg_view(base[0].clone()),
            "empty": torch.empty(0, 3).to(device),
            "scalar": torch.tensor(5).to(device),
            "plain": ["text", 3, 2.5, True, b"bytes", None, torch.float16, torch.Size([1, 2])],
        }

    xm.save(data("xla"), tmp_path / "ours.pt")
    torch.save(data("cpu"), tmp_path / "theirs.pt")
    ours, theirs = (torch.load(tmp_path / f, weights_only=True) for f in ("ours.pt", "theirs.pt"))
    assert str(ours) == str(theirs)
    records = [torch._C.PyTorchFileReader(str(tmp_path / f)) for f in ("ours.pt", "theirs.pt")]
    names = [r.get_all_records() for r in records]
    assert names[0] == names[1]
    for name in names[0]:
        if name != ".data/serialization_id":
            assert records[0].get_record(name) == records[1].get_record(name), name
    assert ours["tied"][0] is ours["tied"][1] or ours["tied"][0].data_ptr() == ours["tied"][1].data_ptr()


class Holder:
    """An object that no pytree looks into."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x


@pytest.mark.parametrize("save", [xm.save, serialization.save])
def test_an_interrupt_is_raised_as_such(save: Callable[..., None], tmp_path: Path, monkeypatch) -> None:
    def interrupted(self: object, data: memoryview) -> int:
        if len(data) > 1000:
            raise KeyboardInterrupt
        return len(data)

    monkeypatch.setattr(whole_file._Stream, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save({"w": torch.ones(1000, device="xla")}, tmp_path / "model.pt")
    assert not (tmp_path / "model.pt").exists()


def test_tensors_within_objects_and_modules() -> None:
    x = torch.ones(3, device="xla")
    y = x * 2
    model = torch.nn.Linear(2, 2).to("xla")
    file = io.BytesIO()
    xm.save([Holder(y), model], file)
    file.seek(0)
    holder, loaded = torch.load(file, weights_only=False)
    assert holder.x.device.type == "cpu" and holder.x.tolist() == [2, 2, 2]
    assert torch.equal(loaded.weight, model.weight.cpu())


def test_mmap_and_pathlib_and_text_paths(tmp_path: Path) -> None:
    x = torch.arange(5000.0, device="xla")
    for path in (tmp_path / "a.pt", str(tmp_path / "b.pt"), tmp_path / "gewöhnlich.pt"):
        xm.save({"x": x}, path)
        mapped = torch.load(path, weights_only=True, mmap=True)
        assert torch.equal(mapped["x"], torch.arange(5000.0))


def test_what_torch_save_refuses_is_refused() -> None:
    def two_types(device: str) -> object:
        x = torch.ones(4, device=device)
        return [x, x.view(torch.int32)]

    for data in (two_types, lambda device: [torch.ones(2, device=device), lambda: 0]):
        with pytest.raises(Exception) as theirs:
            torch.save(data("cpu"), io.BytesIO())
        with pytest.raises(theirs.type) as ours:
            xm.save(data("xla"), io.BytesIO())
        assert str(ours.value).partition(" at 0x")[0] == str(theirs.value).partition(" at 0x")[0]


def test_functional_tensors_within_objects(functional: torch.Tensor) -> None:
    file = io.BytesIO()
    xm.save(Holder(functional), file)
    file.seek(0)
    assert torch.load(file, weights_only=False).x.tolist() == [5, 0, 0]


def test_only_the_master_writes(tmp_path: Path, monkeypatch) -> None:
    x = torch.ones(2, device="xla") + 1
    monkeypatch.setattr(xm, "is_master_ordinal", lambda local=True: False)
    xm.save([x], tmp_path / "a.pt")
    assert not os.listdir(tmp_path) and torch_go_xla._XLAC._describe(x)["state"] == "device"
    xm.save([x], tmp_path / "a.pt", master_only=False)
    assert torch.load(tmp_path / "a.pt")[0].tolist() == [2, 2]


class Terminal(io.StringIO):
    """Standard error on a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def progress_is() -> Iterator[Callable[[str], None]]:
    """Set TORCH_GO_XLA_PROGRESS in the core; what it was is set again at the end."""
    before = core.setting("TORCH_GO_XLA_PROGRESS")
    yield lambda value: core.configure("TORCH_GO_XLA_PROGRESS", value)
    core.configure("TORCH_GO_XLA_PROGRESS", before)


@pytest.mark.parametrize("terminal", [Terminal, io.StringIO])
def test_progress_is_shown_on_a_terminal_after_two_seconds(
    terminal: type[io.StringIO], monkeypatch, progress_is: Callable[[str], None]
) -> None:
    progress_is("1")
    now, shown = [0.0], terminal()
    monkeypatch.setattr("sys.stderr", shown)
    progress = tensor_file.Progress("saving a.pt", clock=lambda: now[0])
    progress.begin(4 * 10**9)
    for second in range(1, 5):
        now[0] = second
        progress.wrote(10**9)
    progress.close()
    lines = [line.split("|")[0].strip() for line in shown.getvalue().split("\r")[1:-1]]
    assert lines == (["saving a.pt:  50%", "saving a.pt:  75%", "saving a.pt: 100%"] if shown.isatty() else [])
    assert not lines or "2.00/4.00 GB, 1000 MB/s" in shown.getvalue()


def test_progress_is_off_by_a_variable(monkeypatch, progress_is: Callable[[str], None]) -> None:
    progress_is("0")
    now, shown = [0.0], Terminal()
    monkeypatch.setattr("sys.stderr", shown)
    progress = tensor_file.Progress("saving a.pt", clock=lambda: now[0])
    progress.begin(10**9)
    now[0] = 5
    progress.wrote(10**9)
    progress.close()
    assert shown.getvalue() == ""


def test_the_host_needs_memory_for_one_tensor_only(ok, tmp_path: Path) -> None:
    """320 MB in 40 tensors, of which no copy may be in memory; 8 MB are the largest tensor."""
    grown = int(ok("save/memory.py", tmp_path / "a.pt"))
    assert grown <= 16, f"{grown} MB more than before"
