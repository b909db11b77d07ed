"""Sparse tensors as the dense ones that they hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

_BY_ROWS = (torch.sparse_csr, torch.sparse_bsr)
_BY_COLUMNS = (torch.sparse_csc, torch.sparse_bsc)
_LAYOUTS = (torch.sparse_coo, *_BY_ROWS, *_BY_COLUMNS)


def is_sparse(x: torch.Tensor) -> bool:
    """Tell whether a tensor has one of torch's sparse layouts."""
    return x.layout in _LAYOUTS


def parts(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return the dense tensors that hold a value: the tensor itself, or a sparse one's indices and values."""
    if x.layout == torch.sparse_coo:
        return x._indices(), x._values()
    if x.layout in _BY_ROWS:
        return x.crow_indices(), x.col_indices(), x.values()
    if x.layout in _BY_COLUMNS:
        return x.ccol_indices(), x.row_indices(), x.values()
    return (x,)


def rebuilding(x: torch.Tensor, held: Sequence[torch.Tensor]) -> tuple[Any, tuple[Any, ...]]:
    """Return a function and its arguments that make a sparse tensor like x of other parts, as torch pickles it."""
    library: Any = torch._utils
    last = (x.is_coalesced(),) if x.layout == torch.sparse_coo else ()
    return library._rebuild_sparse_tensor, (x.layout, (*held, x.size(), *last))


def rebuilt(x: torch.Tensor, held: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return a tensor like x of other parts."""
    if not is_sparse(x):
        return held[0]
    function, arguments = rebuilding(x, held)
    return function(*arguments)  # type: ignore[no-any-return]
