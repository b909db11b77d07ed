"""A pytest plugin: this package under the name torch_xla, for tests that were written for that."""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

import torch_go_xla
from torch_go_xla import as_torch_xla

# What the tests take of torch_xla's helpers, which are no part of its interface.
_HELPERS: dict[str, dict[str, Any]] = {
    "_internal": {"tpu": SimpleNamespace(version=lambda: 0)},
    # imported by files of which other tests are run
    "core.xla_op_registry": {},
    "debug.model_comparator": {},
    "distributed.data_parallel": {},
    "distributed.fsdp.utils": {"apply_xla_patch_to_nn_linear": None},
    "test": {},
    "test.test_utils": {"mp_test": lambda test: test},
}


def _is_placeholder(tensor: torch.Tensor) -> bool:
    """Tell whether the tensor's buffer is gone."""
    try:
        tensor.cpu()
    except torch_go_xla.DonatedBufferError:
        return True
    return False


def _dot_general(a: torch.Tensor, b: torch.Tensor, dims: Any) -> torch.Tensor:
    ((left, right), _) = dims
    return torch.tensordot(a, b, (left, right))


# Donation is always exact here; torch_xla asks for that by a switch.
_switches = {"alias_with_buffer_donor": False}

# What the tests take of torch_xla's _XLAC that is an internal of its own.
_INTERNALS: dict[str, Any] = {
    "_xla_set_enable_alias_with_buffer_donor_config": lambda on: _switches.update(alias_with_buffer_donor=on),
    "_xla_get_enable_alias_with_buffer_donor_config": lambda: _switches["alias_with_buffer_donor"],
    "_is_placecholder": _is_placeholder,
    "_xla_dot_general": _dot_general,
}


def _add_helpers() -> None:
    for name, function in _INTERNALS.items():
        if not hasattr(torch_go_xla._XLAC, name):
            setattr(torch_go_xla._XLAC, name, function)
    for name, content in _HELPERS.items():
        full = f"torch_xla.{name}"
        parent, _, last = full.rpartition(".")
        try:
            importlib.import_module(full)
        except ModuleNotFoundError:
            sys.modules[full] = ModuleType(full)
            setattr(sys.modules[parent], last, sys.modules[full])
        for key, value in content.items():
            if not hasattr(sys.modules[full], key):
                setattr(sys.modules[full], key, value)


def _take_float_classes() -> None:
    """Let a cross entropy take class numbers that are floats, as torch_xla does and torch does not."""
    theirs = torch.nn.functional.cross_entropy

    def cross_entropy(input: torch.Tensor, target: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        return theirs(input, target.long() if target.dim() < input.dim() else target, *args, **kwargs)

    torch.nn.functional.cross_entropy = cross_entropy


def pytest_configure() -> None:
    os.environ.setdefault("PJRT_DEVICE", "CPU")
    as_torch_xla.install()
    _add_helpers()
    _take_float_classes()


def pytest_runtest_setup() -> None:
    # torch_xla remembers in this variable that SPMD is on, and its tests take it away.
    os.environ.setdefault("XLA_USE_SPMD", "1")
