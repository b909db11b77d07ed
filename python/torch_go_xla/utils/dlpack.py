"""DLPack, by the names of torch_xla's ``torch_xla.utils.dlpack``; ``torch.from_dlpack`` serves as well."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["from_dlpack", "to_dlpack"]

_torch: Any = torch


def to_dlpack(xla_tensor: torch.Tensor) -> Any:
    """Return a capsule with the value of an xla tensor, in place, which another library takes over.

    Args:
        xla_tensor: the tensor. What is recorded of it is computed first.

    Raises:
        BufferError: the host cannot read the value where it is.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.utils.dlpack import to_dlpack
        >>> torch.from_dlpack(to_dlpack(torch.ones(2, device="xla")))
        tensor([1., 1.])
    """
    return _torch.utils.dlpack.to_dlpack(xla_tensor)


def from_dlpack(ext_tensor: Any) -> torch.Tensor:
    """Return an xla tensor over the memory of a CPU tensor of any library, or of a capsule, without a copy.

    Do not write to that memory while the xla tensor lives; the device does not. A copy is made where the memory is not
    aligned as the device needs it, to 64 bytes on the CPU.

    Args:
        ext_tensor: an array with ``__dlpack__``, such as numpy's, or a capsule.

    Example:
        >>> import numpy as np, torch_go_xla
        >>> from torch_go_xla.utils.dlpack import from_dlpack
        >>> from_dlpack(np.ones(2, np.float32))
        tensor([1., 1.], device='xla:0')
    """
    return _torch.from_dlpack(ext_tensor, device="xla")  # type: ignore[no-any-return]
