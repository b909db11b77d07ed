"""What ``torch.use_deterministic_algorithms`` asks of the device: torch's alerts, and memory that is filled."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import torch

from ..kernels import AROUND_ROWS, Kernel, add

# Overloads that torch alerts of on every device, and its names for them.
_ALERTED = {
    "max_unpool2d": "max_unpooling2d_forward_out",
    "max_unpool2d.out": "max_unpooling2d_forward_out",
    "max_unpool3d": "max_unpooling3d_forward_out",
    "max_unpool3d.out": "max_unpooling3d_forward_out",
    "put": "put_",
    "put_": "put_",
}
_URL = "https://github.com/pytorch/pytorch/issues"


def _alert(name: str) -> None:
    """Raise or warn as at::Context::alertNotDeterministic does."""
    what = f"{name} does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms(True"
    help_us = f"at {_URL} to help us prioritize adding deterministic support for this operation."
    if torch.is_deterministic_algorithms_warn_only_enabled():
        warnings.warn(f"{what}, warn_only=True)'. You can file an issue {help_us}", UserWarning, stacklevel=3)
    else:
        raise RuntimeError(
            f"{what})'. You can turn off determinism just for this operation, or you can use the 'warn_only=True' "
            f"option, if that's acceptable for your application. You can also file an issue {help_us}"
        )


def _alerting(kernel: Kernel, name: str) -> Kernel:
    def alerting(*args: Any, **kwargs: Any) -> Any:
        accumulates = args[3:] == (True,)  # put_; the others have no such argument
        if torch.are_deterministic_algorithms_enabled() and not accumulates:
            _alert(name)
        return kernel(*args, **kwargs)

    return alerting


add(AROUND_ROWS, {key: functools.partial(_alerting, name=name) for key, name in _ALERTED.items()})
