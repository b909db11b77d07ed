"""Compressed sparse tensors (CSR, CSC, BSR, BSC), made of ops on COO tensors and of products with dense matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..errors import NotLoweredError
from ..kernels import KERNELS, SPARSE_COMPRESSED, add
from ..sparse_parts import parts
from .sparse import add_rows, columns_of, coo, extreme_of_rows, product
from .sparse_by_torch import as_tensor, by_torch

_aten = torch.ops.aten


# ---- indices, of dense tensors ----


def _coo_to_csr(self: Tensor, size: int, *, out_int32: bool = False) -> Tensor:
    """_convert_indices_from_coo_to_csr: where each of ``size`` rows begins in ascending row indices, and their end."""
    starts = torch.arange(size + 1, device=self.device, dtype=self.dtype)
    return torch.searchsorted(self.contiguous(), starts, out_int32=out_int32)


def _csr_to_coo(
    crow_indices: Tensor, col_indices: Tensor, *, out_int32: bool = False, transpose: bool = False
) -> Tensor:
    """_convert_indices_from_csr_to_coo: [dimensions of the batch, then rows and columns; elements]."""
    batch, n = col_indices.shape[:-1], col_indices.shape[-1]
    count = math.prod(batch)
    starts = crow_indices.reshape(count, crow_indices.shape[-1]).contiguous()
    places = torch.arange(n, device=starts.device, dtype=starts.dtype).expand(count, n).contiguous()
    rows = torch.searchsorted(starts, places, right=True).flatten() - 1
    columns = col_indices.flatten().to(rows.dtype)
    numbers = torch.arange(count, device=rows.device).repeat_interleave(n, output_size=count * n)
    pair = torch.stack((columns, rows) if transpose else (rows, columns))
    return torch.cat((columns_of(numbers, batch), pair)).to(torch.int32 if out_int32 else torch.int64)


def _validate(is_crow: bool, compressed_idx: Tensor, plain_idx: Tensor, cdim: int, dim: int, nnz: int) -> None:
    """_validate_compressed_sparse_indices: raise for indices that are not right; looks at their values."""
    _aten._validate_compressed_sparse_indices.default(is_crow, compressed_idx.cpu(), plain_idx.cpu(), cdim, dim, nnz)


# ---- layouts ----

_FLIPS = {torch.sparse_csr: torch.sparse_csc, torch.sparse_csc: torch.sparse_csr}
_LAYOUTS = {
    "_to_sparse_csr": torch.sparse_csr,
    "_to_sparse_csc": torch.sparse_csc,
    "_to_sparse_bsr": torch.sparse_bsr,
    "_to_sparse_bsc": torch.sparse_bsc,
}


def _flipped(self: Tensor) -> Tensor:
    """Return a CSR tensor as CSC, or the reverse; torch's kernel sorts in memory."""
    starts, minor, values = parts(self)
    rank = minor.dim() - 1
    size = self.shape[rank + (self.layout == torch.sparse_csr)]
    batch, n = minor.shape[:-1], minor.shape[-1]
    major = _csr_to_coo(starts, minor, out_int32=minor.dtype == torch.int32)[rank]
    count = math.prod(batch)
    ordered, order = minor.reshape(count, n).sort(dim=1, stable=True)
    places = torch.arange(size + 1, device=minor.device, dtype=minor.dtype).expand(count, size + 1)
    ends = torch.searchsorted(ordered, places.contiguous()).to(starts.dtype)
    flat = values.reshape(count, n, *values.shape[rank + 1 :])
    flat = flat[torch.arange(count, device=order.device)[:, None], order]
    return torch.sparse_compressed_tensor(
        ends.reshape(*batch, size + 1),
        major.reshape(count, n).gather(1, order).reshape(minor.shape),
        flat.reshape(values.shape),
        self.shape,
        layout=_FLIPS[self.layout],
        check_invariants=False,
    )


def _converting(name: str) -> Any:
    by_torchs, given = by_torch(name, "SparseCsrCPU"), _LAYOUTS.get(name)

    def convert(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        layout = given or kwargs.get("layout")
        if layout is not None and layout == _FLIPS.get(self.layout):
            return _flipped(self)
        blocks = torch.sparse_bsr, torch.sparse_bsc
        if layout in blocks and self.layout in blocks and layout != self.layout:
            raise NotLoweredError(f"a conversion from {self.layout} to {layout} is not supported on xla")
        return by_torchs(self, *args, **kwargs)  # type: ignore[no-any-return]

    return convert


# ---- sums ----


def _written(out: Tensor, result: Tensor) -> Tensor:
    if out.layout == torch.strided:
        if out.shape != result.shape:
            out.resize_(result.shape)
    else:
        out.resize_as_sparse_(result)
    return out.copy_(result)


def _add_out(self: Tensor, other: Any, *, alpha: Any = 1, out: Tensor) -> Tensor:
    other = as_tensor(self, other)
    if other.layout == torch.strided:
        raise RuntimeError("add(sparse_csr, dense) is not supported. Use add(dense, sparse_csr) instead.")
    if self.shape != other.shape:
        raise RuntimeError(
            "torch.add: Expected input tensors to have the same shape, but got tensor `self` with shape "
            f"{list(self.shape)} and tensor `other` with shape {list(other.shape)}"
        )
    if self.layout == torch.strided:
        return _written(out, torch.add(self, other.to_sparse(), alpha=alpha))
    total = torch.add(self.to_sparse(), other.to_sparse(), alpha=alpha)
    return _written(out, _compressed(total, self.layout))


def _compressed(x: Tensor, layout: Any) -> Tensor:
    if layout not in _FLIPS or x.dim() != 2:
        raise NotLoweredError(
            f"sums and products to a tensor of layout {layout} and {x.dim()}D are not supported on xla"
        )
    return x.to_sparse(layout=layout)


def _sum(self: Tensor, dim: Sequence[int], keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    """_sparse_csr_sum.dim_dtype."""
    if not keepdim:
        raise RuntimeError("reduction operations on CSR tensors with keepdim=False is unsupported")
    if self.layout != torch.sparse_csr or self.dim() != 2:
        raise NotLoweredError("sums are supported for CSR matrices only on xla")
    dims = {d % 2 for d in dim} or {0, 1}
    dtype = dtype or (self.dtype if self.dtype.is_floating_point or self.dtype.is_complex else torch.int64)
    size = [1 if d in dims else n for d, n in enumerate(self.shape)]
    x = self.to_sparse()
    indices = torch.stack([torch.zeros_like(i) if d in dims else i for d, i in enumerate(x._indices().unbind(0))])
    return coo(indices, x._values().to(dtype), size).coalesce().to_sparse_csr()


# ---- products ----


def _elements(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    x = x.to_sparse()
    rows, columns = x._indices().unbind(0)
    return rows, columns, x._values()


def _dots(a: Tensor, b: Tensor) -> Tensor:
    """Return the dot products of the rows of two matrices, of half types summed in float32."""
    wide = torch.float32 if a.dtype in (torch.float16, torch.bfloat16) else a.dtype
    return (a.to(wide) * b.to(wide)).sum(1).to(a.dtype)


def _addmm_out(self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Tensor) -> Tensor:
    for x in (mat1, mat2):
        if x.dim() != 2:
            raise RuntimeError(f"addmm: matrices expected, got {x.dim()}D tensor")
    (n, k), (k2, m) = mat1.shape, mat2.shape
    if k != k2:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({n}x{k} and {k2}x{m})")
    if mat2.layout == torch.strided:
        result = product(*_elements(mat1), mat2, n)
    elif mat1.layout == torch.strided:
        rows, columns, values = _elements(mat2)
        result = product(columns, rows, values, mat1.t(), m).t()
    else:
        result = _aten._sparse_sparse_matmul.default(mat1.to_sparse(), mat2.to_sparse())
        result = result.to_dense() if out.layout == torch.strided else _compressed(result, out.layout)
    result = result if alpha == 1 else result * alpha
    if beta != 0:
        self = self.expand(n, m) if self.layout == torch.strided else self
        result = torch.add(self if beta == 1 else self * beta, result)
    return _written(out, result)


def _addmv_out(self: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Tensor) -> Tensor:
    n, k = mat.shape
    if vec.shape != (k,):
        raise RuntimeError(f"size mismatch, got input ({n}), mat ({n}x{k}), vec ({', '.join(map(str, vec.shape))})")
    result = product(*_elements(mat), vec[:, None], n)[:, 0]
    result = result if alpha == 1 else result * alpha
    return _written(out, result if beta == 0 else result + self.expand(n) * beta)


def _sampled_addmm(self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    if self.layout != torch.sparse_csr or self.dim() != 2 or mat1.dim() != 2 or mat2.dim() != 2:
        raise NotLoweredError("sparse_sampled_addmm is supported for a CSR matrix and dense matrices only on xla")
    if mat1.shape[1] != mat2.shape[0]:
        raise RuntimeError("sparse_sampled_addmm: mat1.shape[-1] must match mat2.shape[-2]")
    if self.shape != (mat1.shape[0], mat2.shape[1]):
        raise RuntimeError("sparse_sampled_addmm: self.shape must match the shape of the product of mat1 and mat2")
    rows, columns, values = _elements(self)
    terms = _dots(mat1[rows], mat2.t()[columns]) * alpha
    values = terms if beta == 0 else terms + values * beta
    return _with_values(self, values)


def _sampled_addmm_out(
    self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Tensor
) -> Tensor:
    return _written(out, _sampled_addmm(self, mat1, mat2, beta=beta, alpha=alpha))


# ---- products whose terms are reduced otherwise than by sums ----

_EXTREME = ("amax", "amin")


def _counts(self: Tensor) -> Tensor:
    """Return how many elements each row has, at least 1, to broadcast over the columns of a product."""
    return self.crow_indices().diff().clamp(min=1)[:, None]


def _mm_reduce(self: Tensor, other: Tensor, reduce: str) -> tuple[Tensor, Tensor]:
    """_sparse_mm_reduce_impl: the product, and for extremes the element of self that each number comes from."""
    rows, columns, values = _elements(self)
    if reduce not in _EXTREME:
        total = product(rows, columns, values, other, self.shape[0])
        return (total / _counts(self) if reduce == "mean" else total), columns.new_empty(0)
    terms = values[:, None] * other[columns]
    size = (self.shape[0], other.shape[1])
    result = extreme_of_rows(other.new_zeros(size), rows, terms, reduce, include_self=False)
    places = torch.arange(rows.shape[0], device=rows.device)[:, None]
    chosen = torch.where(terms == result[rows], places, rows.shape[0])
    return result, extreme_of_rows(rows.new_full(size, rows.shape[0]), rows, chosen, "amin")


def _mm_reduce_backward(
    self: Tensor, grad_out: Tensor, weight: Tensor, reduce: str, arg_out: Tensor, output_mask: Sequence[bool]
) -> tuple[Tensor | None, Tensor | None]:
    """_sparse_mm_reduce_impl_backward."""
    rows, columns, values = _elements(self)
    grad = (grad_out / _counts(self) if reduce == "mean" else grad_out)[rows]
    if reduce in _EXTREME:
        chosen = arg_out[rows] == torch.arange(rows.shape[0], device=rows.device)[:, None]
        grad = torch.where(chosen, grad, torch.zeros_like(grad))
    of_self = of_weight = None
    if output_mask[0]:
        of_self = _with_values(self, _dots(grad, weight[columns]))
    if output_mask[1]:
        of_weight = add_rows(torch.zeros_like(weight), columns, grad * values[:, None])
    return of_self, of_weight


def _with_values(self: Tensor, values: Tensor) -> Tensor:
    return torch.sparse_csr_tensor(self.crow_indices(), self.col_indices(), values, self.shape, check_invariants=False)


add(
    KERNELS,
    {
        "_convert_indices_from_coo_to_csr": _coo_to_csr,
        "_convert_indices_from_csr_to_coo": _csr_to_coo,
        "_validate_compressed_sparse_indices": _validate,
    },
)
add(
    SPARSE_COMPRESSED,
    {
        **{name: _converting(name) for name in ("_to_sparse", *_LAYOUTS)},
        "_sparse_csr_sum.dim_dtype": _sum,
        "_sparse_mm_reduce_impl": _mm_reduce,
        "_sparse_mm_reduce_impl_backward": _mm_reduce_backward,
        "add.out": _add_out,
        "addmm.out": _addmm_out,
        "addmv.out": _addmv_out,
        "sparse_sampled_addmm": _sampled_addmm,
        "sparse_sampled_addmm.out": _sampled_addmm_out,
    },
)
