"""Gamma functions that torch composes with as many terms as an argument says."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor

from ..errors import OutOfMemoryError
from ..kernels import KERNELS, Kernel, add


def _bounded(op: Any) -> Kernel:
    """Return torch's composition of mvlgamma, for as many terms as torch itself has memory for.

    The terms of all elements are one array there. Here they are summed as they are made, which would go on for minutes.
    """

    def mvlgamma(self: Tensor, p: int) -> Any:
        size = self.numel() * p * self.element_size()
        if size > os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"):
            raise OutOfMemoryError(
                f"mvlgamma: can't allocate memory for {p} terms of each of {self.numel()} elements: {size} bytes"
            )
        return op._op_dk(torch._C.DispatchKey.CompositeExplicitAutograd, self, p)

    return mvlgamma


add(KERNELS, {name: _bounded(getattr(torch.ops.aten, name).default) for name in ("mvlgamma", "mvlgamma_")})
