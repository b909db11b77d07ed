"""What the tests share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch

import torch_go_xla

# One test of an op in so many is of the quick tier; `make test` has them all.
_OPS_APART = 12


@pytest.hookimpl(tryfirst=True)  # before the tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what runs programs in processes of their own, which import torch anew, and most tests of ops."""
    ops = [item for item in items if item.path.parent.name == "ops"]
    sample = set(ops[::_OPS_APART])
    for item in items:
        apart = not {"python", "ok", "plain_user"}.isdisjoint(getattr(item, "fixturenames", ()))
        if apart or (item.path.parent.name == "ops" and item not in sample):
            item.add_marker("slow")


@dataclass
class Outcome:
    """How a Python process ended."""

    code: int
    out: str
    err: str


Runner = Callable[..., Outcome]


@pytest.fixture
def python() -> Runner:
    """Run a program in a process of its own, with changes to the environment; None takes a variable out."""

    def run(program: str, timeout: float = 180, **env: str | None) -> Outcome:
        merged = {k: v for k, v in {**os.environ, **env}.items() if v is not None}
        done = subprocess.run(
            [sys.executable, "-c", program], env=merged, capture_output=True, text=True, timeout=timeout, check=False
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def ok(python: Runner) -> Callable[..., str]:
    """Run a program that must end well; returns what it printed."""

    def run(program: str, **options: str | None) -> str:
        done = python(program, **options)
        assert done.code == 0, f"exit {done.code}\n{done.out}\n{done.err}"
        return done.out

    return run


# Gives up what root may do with files of others; the owner of a file may still do all that its mode allows.
_PLAIN_USER = """
import ctypes
ctypes.CDLL(None).capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)())
"""


@pytest.fixture
def plain_user(ok: Callable[..., str]) -> Callable[..., str]:
    """Run a program as `ok` does, without the rights of root."""
    return lambda program, **options: ok(_PLAIN_USER + program, **options)


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
