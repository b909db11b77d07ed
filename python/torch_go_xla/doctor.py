"""Tells what is installed here, which plugins and devices there are, and whether they compute.

    python -m torch_go_xla.doctor

The text is made to be pasted into a report. It is written as it is found, so that a plugin which ends the process
leaves what was found before it. The exit status is 0 if all checks passed, 1 if one failed.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from torch_go_xla._info import SECTIONS, info
from torch_go_xla.core import xla_model as xm

__all__ = ["CHECKS", "info", "main"]


def _check(passed: bool, what: str) -> None:
    if not passed:
        raise RuntimeError(what)


def _add() -> None:
    x = torch.arange(6.0, device="xla")
    _check((x + 1).tolist() == [1, 2, 3, 4, 5, 6], f"arange(6) + 1 is {(x + 1).tolist()}")


def _matmul() -> None:
    """Multiply matrices of small integers, whose product is exact in any precision of float32 products."""
    a, b = torch.arange(64 * 32).remainder(5).reshape(64, 32), torch.arange(32 * 48).remainder(7).reshape(32, 48)
    product = (a.float().to("xla") @ b.float().to("xla")).cpu()
    _check(torch.equal(product, a.float() @ b.float()), "the product differs from torch's on the CPU")


def _gradient() -> None:
    x = torch.arange(6.0, device="xla", requires_grad=True)
    x.square().sum().backward()  # type: ignore[no-untyped-call]
    _check(x.grad is not None and x.grad.tolist() == [0, 2, 4, 6, 8, 10], "the gradient of sum(x²) is not 2x")


def _save_and_load() -> None:
    state = {"w": torch.arange(12.0, device="xla").reshape(3, 4) * 2}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "state.pt")
        xm.save(state, str(path))
        loaded = torch.load(path, weights_only=True)
    _check(torch.equal(loaded["w"].cpu(), state["w"].cpu()), "what was loaded differs from what was saved")


# What the smoke test runs, by name; each raises an error if the device does not compute what it should.
CHECKS: dict[str, Callable[[], None]] = {
    "add": _add,
    "matmul": _matmul,
    "gradient": _gradient,
    "save and load": _save_and_load,
}
"""What `main` runs on the device, by name. A check that fails raises."""


def _lines(found: Any) -> list[str]:
    if isinstance(found, dict):
        return [f"{name:<20}{text}" for name, text in found.items()]
    return [found] if isinstance(found, str) else list(found)


def main() -> int:
    """Print what `info` returns, section by section, then run the checks.

    Returns:
        How many checks failed.

    Example:
        >>> from torch_go_xla import doctor
        >>> failed = doctor.main()
        versions
          python              ...
        all checks passed
        >>> failed
        0
    """
    for name, find in SECTIONS.items():
        print(name, flush=True)
        for line in _lines(find()):
            print(f"  {line}", flush=True)
    print("checks", flush=True)
    failed = 0
    for name, check in CHECKS.items():
        begin = time.perf_counter()
        try:
            check()
        except Exception as error:
            failed += 1
            print(f"  FAILED  {name}: {type(error).__name__}: {error}", flush=True)
        else:
            print(f"  ok      {name}, {time.perf_counter() - begin:.2f} s", flush=True)
    print(f"{failed} of {len(CHECKS)} checks failed" if failed else "all checks passed")
    return failed


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
