"""DLPack, by the names of torch_xla's ``torch_xla.utils.dlpack``; ``torch.from_dlpack`` serves as well."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["from_dlpack", "to_dlpack"]

_torch: Any = torch


def to_dlpack(xla_tensor: torch.Tensor) -> Any:
    """Return a capsule with the value of an xla tensor, in place; BufferError if the host cannot read it there."""
    return _torch.utils.dlpack.to_dlpack(xla_tensor)


def from_dlpack(ext_tensor: Any) -> torch.Tensor:
    """Return an xla tensor over the memory of a CPU tensor of any library, or of a capsule, without a copy.

    Do not write to that memory while the xla tensor lives; the device does not. A copy is made where the memory is not
    aligned as the device needs it, to 64 bytes on the CPU.
    """
    return _torch.from_dlpack(ext_tensor, device="xla")  # type: ignore[no-any-return]
