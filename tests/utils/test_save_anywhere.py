"""Saves where locks are held and threads cannot be had: in signal handlers, while and after the interpreter exits."""

from __future__ import annotations

from pathlib import Path

import pytest


def test_in_a_signal_handler_while_the_main_thread_saves(ok, tmp_path: Path) -> None:
    """As a cluster's preemption handler does. Handlers come at random moments; a bound ends what hangs."""
    ok("save_anywhere/signal_handler.py", tmp_path, timeout=200)


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
def test_a_signal_at_each_line_that_holds_something(
    ok, call: str, names: tuple[str, ...], work: str, least: int, tmp_path
) -> None:
    ok("save_anywhere/held.py", tmp_path, call, " ".join(names), work, least, timeout=120)


@pytest.mark.parametrize("step", ["the same step", "the next step"])
def test_a_signal_at_one_line_of_what_puts_a_step_in_place(ok, step: str, tmp_path: Path) -> None:
    """What the handler's save has removed is not missed."""
    ok("save_anywhere/one_signal.py", tmp_path, step, timeout=120)


def test_in_exit_handlers_and_after_the_main_thread(ok, tmp_path: Path) -> None:
    """Also in a handler that was there before torch, which has torch's own kernels no more: files, but no steps."""
    ok("save_anywhere/exit_handlers.py", tmp_path)
    ok("save_anywhere/what_exit_handlers_saved.py", tmp_path)
