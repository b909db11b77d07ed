"""What the tests share."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

# No test depends on how long a compilation takes.
os.environ.setdefault("TORCH_GO_XLA_PROGRESS", "0")

import processes
import pytest
import torch

import torch_go_xla
from torch_go_xla._core import core
from torch_go_xla.tiers import set_tier

TESTS = Path(__file__).parent
# Folders of tests about lowerings: op by op, torch's kernels would be compared with themselves.
LOWERINGS = {"composed", "conformance", "ir", "ops", "zoo"}

Runner = Callable[..., processes.Outcome]


@pytest.fixture
def python() -> Runner:
    """Run a program in a process of its own; see `processes.run`."""
    return processes.run


@pytest.fixture(autouse=True)
def _nothing_is_left_untold() -> Iterator[None]:
    """Drop the failures of values that a test did not read: the next wait would raise them, in another test."""
    yield
    if core.opened:
        with contextlib.suppress(Exception):
            core.finish_all(range(core.device_count()))


def _is_compiled(test: pytest.Item) -> bool:
    """Whether a test is about compiled programs, or about lowerings and XLA_TIER does not say how it runs."""
    if test.get_closest_marker("compiled") is not None:
        return True
    return "XLA_TIER" not in os.environ and not LOWERINGS.isdisjoint(test.path.relative_to(TESTS).parts)


@pytest.fixture(autouse=True)
def _compiled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compile each graph where a test needs that, in the processes that it starts too."""
    if not _is_compiled(request.node):
        yield
        return
    monkeypatch.setenv("XLA_TIER", "compile")
    with set_tier("compile"):
        yield


@pytest.fixture
def ok(python: Runner) -> Callable[..., str]:
    """Run a program that must end well; returns what it printed."""

    def run(*program: object, **options: object) -> str:
        done = python(*program, **options)
        assert done.code == 0, f"exit {done.code}\n{done.out}\n{done.err}"
        return done.out

    return run


@pytest.fixture
def plain_user(ok: Callable[..., str]) -> Callable[..., str]:
    """Run a program as `ok` does, without the rights of root."""
    return lambda program, *arguments, **options: ok("plain_user.py", program, *arguments, **options)


@pytest.fixture
def unsavable() -> list[tuple[object, type[BaseException]]]:
    """What no save can write, each with its error: a value whose buffer is given away; a function without a name."""
    x = torch.ones(2, device="xla")
    torch_go_xla._XLAC._set_buffer_donation(x, True)
    y = x + 1
    torch_go_xla.sync()
    return [([y, x], torch_go_xla.DonatedBufferError), ([y, lambda: 0], Exception)]


@pytest.fixture
def functional() -> torch.Tensor:
    """A tensor of torch's functionalization, [5, 0, 0], with a write to a view of it outstanding."""
    wrapped: torch.Tensor = torch._to_functional_tensor(torch.zeros(3, device="xla"))
    torch._enable_functionalization(reapply_views=True)
    try:
        wrapped.view(3, 1)[0].add_(5)
    finally:
        torch._disable_functionalization()
    return wrapped
