"""Tells what is installed here, which plugins and devices there are, and whether they compute.

    python -m torch_go_xla.doctor

The text is made to be pasted into a report. It is written as it is found, so that a plugin which ends the process
leaves what was found before it. The exit status is 0 if all checks passed, 1 if one failed.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import torch_go_xla
from torch_go_xla import plugins
from torch_go_xla.core import xla_model as xm

__all__ = ["CHECKS", "info", "main"]

# Variables beside those of the core that change how a device is found, opened or compiled for.
_PREFIXES = ("XLA_", "PJRT_", "PT_XLA_", "TORCH_GO_XLA_", "CPU_NUM_", "CUDA_VISIBLE_", "TPU_", "TF_", "LD_", "JAX_")
_JOB = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_PACKAGES = ("torch", "numpy", "pjrt-xla-cpu", "jax-cuda13-pjrt", "libtpu", "torch_xla", "jax", "tensorflow-cpu")


def _versions() -> dict[str, str]:
    """Return the versions of the system, the package, its core, and the packages that matter to it."""
    core = torch_go_xla._core.core
    found = {
        "python": f"{platform.python_version()} ({sys.executable})",
        "system": f"{platform.platform()}, {os.cpu_count()} CPUs",
        "torch_go_xla": f"{torch_go_xla.__version__} ({Path(torch_go_xla.__file__).parent})",
        "core": core.version(),
    }
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def _plugins() -> dict[str, str]:
    """Return, for each known device name, the library that serves it, or why there is none."""
    found = {}
    for name in plugins.known():
        try:
            found[name] = plugins.find_plugin(name).library_path()
        except Exception as error:  # a package's entry point may raise anything
            found[name] = f"not found: {error}"
    return found


def _devices() -> list[str] | str:
    """Return a line for each device of this process, or why they do not open."""
    try:
        names = torch_go_xla.real_devices()
        return [f"xla:{i} is {name}{_memory(i)}" for i, name in enumerate(names)]
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _memory(index: int) -> str:
    """Return how much of a device's memory is in use, if the plugin tells."""
    try:
        figures = torch_go_xla._core.core.memory_info(index)
    except Exception:  # a plugin need not tell
        return ""
    used, limit = (figures.get(key, 0) / 2**30 for key in ("bytes_used", "bytes_limit"))
    return f", {used:.1f} of {limit:.1f} GiB in use" if limit else ""


def _cache() -> dict[str, str]:
    """Return the folder of the persistent cache with its size, and the number of programs in memory."""
    folder = os.environ.get("XLA_PERSISTENT_CACHE_PATH", "")
    text = "none (XLA_PERSISTENT_CACHE_PATH is not set)"
    if folder:
        files = [p for p in Path(folder).rglob("*") if p.is_file()]
        text = f"{folder}: {len(files)} files, {sum(p.stat().st_size for p in files) / 2**20:.1f} MiB"
    return {"folder": text, "programs in memory": str(torch_go_xla._core.core.cached_programs())}


def _environment() -> dict[str, str]:
    """Return the variables that are set and change what this package does."""
    known = {row[0] for row in torch_go_xla._core.core.config_table()} | {*_JOB}
    return {k: v for k, v in sorted(os.environ.items()) if k in known or k.startswith(_PREFIXES)}


_SECTIONS: dict[str, Callable[[], Any]] = {
    "versions": _versions,
    "environment": _environment,
    "plugins": _plugins,
    "devices": _devices,
    "cache": _cache,
}


def info() -> dict[str, Any]:
    """Return what `main` prints, but for the checks: what JSON can hold, by section.

    The device of ``PJRT_DEVICE`` is opened. What cannot be found or opened is said in its place; nothing is raised.

    Returns:
        ``versions``, ``environment``, ``plugins`` and ``cache``: texts by name; ``devices``: a list of texts, or the
        error's text.

    Example:
        >>> import torch_go_xla
        >>> torch_go_xla.info()["devices"]
        ['xla:0 is CPU:0, 0.0 of 23.5 GiB in use']
    """
    return {name: find() for name, find in _SECTIONS.items()}


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
    """Print what `info` returns, section by section, then run the checks; return how many failed."""
    for name, find in _SECTIONS.items():
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
