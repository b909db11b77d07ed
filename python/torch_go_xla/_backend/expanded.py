"""In-place writes by indices or masks to expanded tensors, whose elements lie several times on the same memory.

torch deprecates them, with a warning, and writes element after element: what is written last stays.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch

# In-place op: the position of what it writes, and the end of torch's warning.
OPS = {
    "masked_fill_": (2, "tensor[mask] = scalar"),
    "index_fill_": (3, "tensor[mask] = scalar"),
    "index_put_": (2, "tensor[indices] = tensor"),
}


def is_expanded(x: torch.Tensor) -> bool:
    """Tell whether a tensor has elements that a stride of 0 repeats."""
    return any(s == 0 and n > 1 for n, s in zip(x.shape, x.stride(), strict=True))


def write(op: str, args: tuple[Any, ...], stacklevel: int) -> torch.Tensor:
    """Run one of these ops on an expanded tensor, the first of its arguments; return that."""
    at, example = OPS[op]
    warnings.warn(
        f"Use of {op} on expanded tensors is deprecated. Please clone() the tensor before performing this operation. "
        f"This also applies to advanced indexing e.g. {example}",
        UserWarning,
        stacklevel=stacklevel + 1,
    )
    to: torch.Tensor = args[0]
    repeated = [d for d, (n, s) in enumerate(zip(to.shape, to.stride(), strict=True)) if s == 0 and n > 1]
    kept = [d for d in range(to.dim()) if d not in repeated]
    once = to.as_strided([to.shape[d] for d in kept], [to.stride(d) for d in kept], to.storage_offset())

    def written(to: torch.Tensor, value: Any) -> torch.Tensor:
        """Return what the op makes of another tensor by another value, the repeated dimensions as its last one."""
        getattr(to, op)(*args[1:at], value, *args[at + 1 :])
        return to.permute(*kept, *repeated).reshape(*once.shape, -1)

    if args[at + 1 :] == (True,):  # index_put_ that accumulates
        once += written(to.new_zeros(to.shape), args[at]).sum(-1).to(to.dtype)
        return to
    # Of the elements on the same memory that are written, the last one stays.
    true = torch.ones((), dtype=torch.bool, device=to.device) if isinstance(args[at], torch.Tensor) else True
    touched = written(to.new_zeros(to.shape, dtype=torch.bool), true)
    order = torch.arange(touched.shape[-1], device=to.device)
    last = torch.where(touched, order, -1).amax(-1)
    values = written(to.clone(memory_format=torch.contiguous_format), args[at])
    values = values.gather(-1, last.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    once.copy_(torch.where(last >= 0, values, once))
    return to
