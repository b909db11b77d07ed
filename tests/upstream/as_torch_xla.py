"""A pytest plugin: this package under the name torch_xla, for tests that were written for that."""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import torch_go_xla


def _alias() -> None:
    sys.modules["torch_xla"] = torch_go_xla
    for found in pkgutil.walk_packages(torch_go_xla.__path__, "torch_go_xla."):
        if "._go." not in found.name:
            sys.modules["torch_xla" + found.name.removeprefix("torch_go_xla")] = importlib.import_module(found.name)


class SampleGenerator:
    """A loader of one batch, many times."""

    def __init__(self, data: Any, sample_count: int) -> None:
        self.data, self.count = data, sample_count

    def __iter__(self) -> Any:
        return iter([self.data] * self.count)

    def __len__(self) -> int:
        return self.count


# What the tests take of torch_xla's helpers, which are no part of its interface.
_HELPERS: dict[str, dict[str, Any]] = {
    "utils.utils": {
        "SampleGenerator": SampleGenerator,
        "check_env_flag": lambda name, default="": os.environ.get(name, default).upper() in ("1", "TRUE", "ON", "YES"),
        "getenv_as": lambda name, type, default=None: type(os.environ[name]) if name in os.environ else default,
    },
    "core.xla_env_vars": {"PJRT_DEVICE": "PJRT_DEVICE"},
    "_internal": {"tpu": SimpleNamespace(version=lambda: 0)},
    "distributed.xla_backend": {},
    "amp": {"autocast": None},
}


def _add_helpers() -> None:
    for name, content in _HELPERS.items():
        full = f"torch_xla.{name}"
        if full not in sys.modules:
            module = ModuleType(full)
            vars(module).update(content)
            sys.modules[full] = module
            parent, _, last = full.rpartition(".")
            if not hasattr(sys.modules[parent], last):
                setattr(sys.modules[parent], last, module)


def pytest_configure() -> None:
    os.environ.setdefault("PJRT_DEVICE", "CPU")
    _alias()
    _add_helpers()


def pytest_runtest_setup() -> None:
    # torch_xla remembers in this variable that SPMD is on, and its tests take it away.
    os.environ.setdefault("XLA_USE_SPMD", "1")
