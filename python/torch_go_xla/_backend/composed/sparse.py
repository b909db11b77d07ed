"""Sparse COO tensors, made of ops on their indices and values.

An op whose number of elements depends on indices waits for that number, as those of `sized.py` do. Values are never
waited for.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..core import native
from ..kernels import DIFFERENTIABLE, KERNELS, SPARSE, UNSIZED, add
from .sparse_by_torch import as_tensor, by_torch

_aten = torch.ops.aten
_mul_out = by_torch("mul.out", "SparseCPU")
_sparse_mask = by_torch("sparse_mask", "SparseCPU")
_bag_backward = by_torch("_embedding_bag_backward", "CPU")


# ---- indices as one number ----


def coo(indices: Tensor, values: Tensor, size: Sequence[int], coalesced: bool = False) -> Tensor:
    """Return the sparse tensor of indices [sparse dimensions, elements] and values [elements, dense dimensions...]."""
    return _aten._sparse_coo_tensor_with_dims_and_tensors.default(  # type: ignore[no-any-return]
        indices.shape[0], values.dim() - 1, size, indices, values,
        dtype=values.dtype, layout=torch.sparse_coo, device=values.device, is_coalesced=coalesced or None,
    )  # fmt: skip


def _numbers(indices: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return where each column of indices is in an array of these sizes, counted row by row."""
    number = indices.new_zeros(indices.shape[1])
    for row, n in zip(indices.unbind(0), sizes, strict=True):
        number = number * n + row
    return number


def columns_of(numbers: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return the columns of indices that `_numbers` counts so."""
    rows = []
    for n in reversed(sizes):
        rows.append(numbers % max(n, 1))
        numbers = numbers // max(n, 1)
    return torch.stack(rows[::-1]) if rows else numbers.new_empty((0, numbers.shape[0]))


def _sparse_sizes(x: Tensor) -> torch.Size:
    return x.shape[: x.sparse_dim()]


def _find(numbers: Tensor, among: Tensor) -> tuple[Tensor, Tensor]:
    """Return where numbers are among ascending ones, of which there is one at least, and whether they are there."""
    place = torch.searchsorted(among, numbers).clamp_(max=among.shape[0] - 1)
    return place, among[place] == numbers


def _matches(name: str, column: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Return all pairs of equal numbers, by their places in ``wanted``, which ascend, and in ``column``."""
    order = column.argsort(stable=True)
    column = column[order]
    starts = torch.searchsorted(column, wanted)
    counts = torch.searchsorted(column, wanted, right=True) - starts
    native().count(f"SizeSync.aten::{name}")
    total = int(counts.sum().item())
    which = torch.repeat_interleave(counts, output_size=total)
    before = counts.cumsum(0) - counts
    return which, order[(starts - before)[which] + torch.arange(total, device=column.device)]


def add_rows(to: Tensor, rows: Tensor, values: Tensor) -> Tensor:
    """Return ``to`` with values added at rows, several times to a row that is there so often."""
    if to.dtype == torch.bool:
        return add_rows(to.to(torch.int32), rows, values.to(torch.int32)) != 0
    if to.dtype in (torch.float16, torch.bfloat16):
        return add_rows(to.float(), rows, values.float()).to(to.dtype)
    return to.index_add(0, rows, values)


def extreme_of_rows(to: Tensor, rows: Tensor, values: Tensor, reduce: str, include_self: bool = True) -> Tensor:
    """Return ``to`` with the extremes ("amax", "amin") of the values at rows; index_reduce warns that it is in beta."""
    index = rows.view(-1, *[1] * (values.dim() - 1)).expand_as(values)
    return to.scatter_reduce(0, index, values, reduce, include_self=include_self)


# ---- one tensor ----


def _coalesce(self: Tensor) -> Tensor:
    if self._nnz() < 2:
        return self.clone()._coalesced_(True)
    sizes, values = _sparse_sizes(self), self._values()
    numbers, places = _aten._unique2.default(_numbers(self._indices(), sizes), True, True)[:2]
    sums = add_rows(values.new_zeros((numbers.shape[0], *values.shape[1:])), places, values)
    return coo(columns_of(numbers, sizes), sums, self.shape, True)


def _index_select(self: Tensor, dim: int, index: Tensor) -> Tensor:
    if self.dim() == 0:
        raise IndexError("index_select() cannot be applied to a 0-dim tensor.")
    if index.dim() != 1 or index.dtype not in (torch.int64, torch.int32):
        raise IndexError("index_select() argument index must be 1-D long-tensor.")
    dim = _wrapped(dim, self.dim())
    size, sparse, indices, values = list(self.shape), self.sparse_dim(), self._indices(), self._values()
    length, size[dim] = size[dim], index.shape[0]
    outside = (index < -length) | (index >= length)
    if dim < sparse and outside.any():  # it waits for the indices below, too
        raise IndexError(
            f"index_select(): index contains {int(index[outside][0])} that is out of range for tensor of size "
            f"{list(self.shape)} at dimension {dim}"
        )
    index = torch.where(index < 0, index + length, index).to(torch.int64)
    if dim >= sparse:
        return coo(indices, values.index_select(dim - sparse + 1, index), size, self.is_coalesced())
    which, places = _matches("index_select", indices[dim], index)
    indices = indices[:, places]
    return coo(torch.cat((indices[:dim], which[None], indices[dim + 1 :])), values[places], size)


def _wrapped(dim: int, rank: int) -> int:
    if not -max(rank, 1) <= dim < max(rank, 1):
        bound = max(rank, 1)
        raise IndexError(f"Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], but got {dim})")
    return dim % max(rank, 1)


# ---- sums ----


def _check_cast(name: str, dtype: torch.dtype, out: Tensor) -> None:
    if not torch.can_cast(dtype, out.dtype):
        raise RuntimeError(f"Can't convert result type {dtype} to output {out.dtype} in {name} operation")


def _scaled(values: Tensor, dtype: torch.dtype, factor: Any) -> Tensor:
    values = values.to(dtype)
    return values if factor == 1 else values * factor


def _add_out(self: Tensor, other: Any, *, alpha: Any = 1, out: Tensor) -> Tensor:
    other = as_tensor(self, other)
    if not other.is_sparse:
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    dtype = torch.promote_types(self.dtype, other.dtype)
    if self.is_sparse:
        total = _add_sparse(self, other, alpha, dtype)
        _check_cast("add", dtype, out)
        return _aten.copy_sparse_to_sparse_.default(out, total)  # type: ignore[no-any-return]
    total = _add_to_dense(self, other, alpha, dtype)
    _check_cast("add", dtype, out)
    if out.shape != total.shape:
        out.resize_(total.shape)
    return out.copy_(total)


def _add_to_dense(dense: Tensor, sparse: Tensor, alpha: Any, dtype: torch.dtype) -> Tensor:
    if dense.shape != sparse.shape:
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have same size, but self has size {list(dense.shape)} while other "
            f"has size {list(sparse.shape)} (FYI: dense-sparse addition does not currently support broadcasting)"
        )
    sizes = _sparse_sizes(sparse)
    values = _scaled(sparse._values(), dtype, alpha)
    rows = dense.to(dtype).reshape(math.prod(sizes), *values.shape[1:])
    return add_rows(rows, _numbers(sparse._indices(), sizes), values).reshape(dense.shape)


def _add_sparse(self: Tensor, other: Tensor, alpha: Any, dtype: torch.dtype) -> Tensor:
    if self.shape != other.shape:
        raise RuntimeError(
            f"add: expected sizes of 'self' and 'other' to match, but {list(self.shape)} != {list(other.shape)}"
        )
    if other._nnz() == 0:
        return self
    added = _scaled(other._values(), dtype, alpha)
    if self._nnz() == 0:
        return coo(other._indices(), added, self.shape, other.is_coalesced())
    if self.sparse_dim() != other.sparse_dim():
        raise RuntimeError(
            "add: expected 'self' and 'other' to have same density, but 'self' has "
            f"{self.sparse_dim()} sparse dimensions while 'other' has {other.sparse_dim()} sparse dimensions"
        )
    indices = torch.cat((self._indices(), other._indices()), 1)
    both = coo(indices, torch.cat((self._values().to(dtype), added)), self.shape)
    coalesced = self.is_coalesced() and other.is_coalesced()
    return both.coalesce() if coalesced or both._nnz() > both.numel() else both


def _sum_backward(grad: Tensor, self: Tensor, dim: Sequence[int]) -> Tensor:
    is_sparse = grad.layout != torch.strided
    if grad.numel() == 0 or (is_sparse and grad._nnz() == 0):
        return torch.zeros_like(self)
    self = self.coalesce()
    indices, values, sparse = self._indices(), self._values(), self.sparse_dim()
    summed = {_wrapped(d, self.dim()) for d in dim}
    kept = [d for d in range(sparse) if d not in summed]
    if is_sparse != bool(kept):
        want, got = ("sparse", "dense") if kept else ("dense", "sparse")
        raise RuntimeError(f"_sparse_sum_backward: expected grad to be {want}, but got {got}")
    if not kept:
        spread = grad.unsqueeze(0)
    else:
        grad = grad.coalesce()
        spread = grad._values()
    for d in sorted(d - sparse + 1 for d in summed if d >= sparse):
        spread = spread.unsqueeze(d)
    if kept and len(kept) < sparse:
        sizes = [self.shape[d] for d in kept]
        place, found = _find(_numbers(indices[kept], sizes), _numbers(grad._indices(), sizes))
        spread = _where(found, spread[place])
    return coo(indices.clone(), spread.expand(values.shape).contiguous(), self.shape, True)


def _where(condition: Tensor, values: Tensor) -> Tensor:
    """Return values, with zeros where the condition, one for each row, is false."""
    return torch.where(condition.reshape(-1, *(1,) * (values.dim() - 1)), values, values.new_zeros(()))


# ---- products ----


def _mul_out_(self: Any, other: Any, *, out: Tensor) -> Tensor:
    self, other = as_tensor(other, self), as_tensor(self, other)
    if not (self.is_sparse and other.is_sparse and self.dim() and other.dim()):
        return _mul_out(self, other, out=out)  # type: ignore[no-any-return]
    dtype = torch.promote_types(self.dtype, other.dtype)
    _check_cast("mul", dtype, out)
    return _aten.copy_sparse_to_sparse_.default(out, _mul_sparse(self, other, dtype))  # type: ignore[no-any-return]


def _mul_sparse(self: Tensor, other: Tensor, dtype: torch.dtype) -> Tensor:
    sizes = _sparse_sizes(self)
    if sizes != _sparse_sizes(other):
        raise RuntimeError(
            f"mul: expected 'self' and 'other' to have same sizes when both are sparse, but {list(self.shape)} != "
            f"{list(other.shape)}"
        )
    size = torch.broadcast_shapes(self.shape, other.shape)  # type: ignore[no-untyped-call]
    if self._nnz() == 0 or other._nnz() == 0:
        nothing = self._indices().new_empty((len(sizes), 0))
        return coo(nothing, self._values().new_empty((0, *size[len(sizes) :]), dtype=dtype), size, True)
    coalesced = self.is_coalesced() and other.is_coalesced()
    self, other = self.coalesce(), other.coalesce()
    place, found = _find(_numbers(self._indices(), sizes), _numbers(other._indices(), sizes))
    here = found.nonzero().flatten()
    values = self._values()[here].to(dtype) * other._values()[place[here]].to(dtype)
    return coo(self._indices()[:, here], values, size, coalesced)


def product(rows: Tensor, columns: Tensor, values: Tensor, dense: Tensor, count: int) -> Tensor:
    """Return the product of a sparse matrix of ``count`` rows, given by its elements, and a dense one."""
    if values.dtype != dense.dtype:
        raise RuntimeError(f"expected the matrices to have one dtype, but got {values.dtype} and {dense.dtype}")
    return add_rows(dense.new_zeros((count, dense.shape[1])), rows, values[:, None] * dense.index_select(0, columns))


def _addmm(self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    if self.is_sparse or not mat1.is_sparse or mat2.layout != torch.strided:
        raise RuntimeError(
            "addmm: expected a dense matrix and the product of a sparse and a dense one, but got layouts "
            f"{self.layout}, {mat1.layout} and {mat2.layout}"
        )
    if mat1.sparse_dim() != 2:
        raise RuntimeError(f"addmm: matrices expected, got {mat1.sparse_dim()}D tensor")
    if mat1.dense_dim() != 0:
        raise RuntimeError(f"addmm: scalar values expected, got {mat1.dense_dim()}D values")
    if mat2.dim() != 2:
        raise RuntimeError(f"addmm: matrices expected, got {mat2.dim()}D tensor")
    n, k = mat1.shape
    if mat2.shape[0] != k:
        raise RuntimeError(f"addmm: Argument #3 (dense): Expected dim 0 size {k}, got {mat2.shape[0]}")
    self = self.expand(n, mat2.shape[1])
    if mat1._nnz() == 0:
        return torch.mul(self, beta)
    rows, columns = mat1._indices().unbind(0)
    result = product(rows, columns, _scaled(mat1._values(), mat1.dtype, alpha), mat2, n)
    return result if beta == 0 else result + _scaled(self, self.dtype, beta)


def _addmm_out(self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Tensor) -> Tensor:
    return _written(out, _addmm(self, mat1, mat2, beta=beta, alpha=alpha))


def _addmm_(self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    return self.copy_(_addmm(self, mat1, mat2, beta=beta, alpha=alpha))


def _written(out: Tensor, result: Tensor) -> Tensor:
    if out.shape != result.shape:
        out.resize_(result.shape)
    return out.copy_(result)


def _bmm(self: Tensor, mat2: Tensor) -> Tensor:
    if mat2.is_sparse:
        raise RuntimeError("bmm_sparse: Tensor 'mat2' must be dense")
    if self.dense_dim() != 0:
        raise RuntimeError(f"bmm_sparse: Tensor 'self' must have 0 dense dims, but has {self.dense_dim()}")
    if self.sparse_dim() != 3:
        raise RuntimeError(f"bmm_sparse: Tensor 'self' must have 3 sparse dims, but has {self.sparse_dim()}")
    if mat2.dim() != 3:
        raise RuntimeError(f"bmm_sparse: Tensor 'mat2' must have 3 dims, but has {mat2.dim()}")
    (b, n, k), m = self.shape, mat2.shape[2]
    if mat2.shape[0] != b:
        raise RuntimeError("bmm_sparse: 'self.size(0)' and 'mat2.size(0)' must match")
    if mat2.shape[1] != k:
        raise RuntimeError("bmm_sparse: 'self.size(2)' and 'mat2.size(1)' must match")
    batch, rows, columns = self._indices().unbind(0)
    return product(batch * n + rows, batch * k + columns, self._values(), mat2.reshape(b * k, m), b * n).view(b, n, m)


def _bmm_out(self: Tensor, mat2: Tensor, *, out: Tensor) -> Tensor:
    return _written(out, _bmm(self, mat2))


def _hspmm(mat1: Tensor, mat2: Tensor) -> Tensor:
    for number, dims, kind in ((2, mat1.sparse_dim(), "matrices"), (3, mat2.dim(), "matrices")):
        if dims != 2:
            raise RuntimeError(f"hspmm: Argument #{number}: {kind} expected, got {dims}D tensor")
    if mat1.dense_dim() != 0:
        raise RuntimeError(f"hspmm: Argument #2: scalar values expected, got {mat1.dense_dim()}D values")
    if mat2.shape[0] != mat1.shape[1]:
        raise RuntimeError(f"hspmm: Argument #3: Expected dim 0 size {mat1.shape[1]}, got {mat2.shape[0]}")
    rows, columns = mat1._indices().unbind(0)
    values = mat1._values()[:, None] * mat2[columns]
    return coo(rows[None], values, (mat1.shape[0], mat2.shape[1])).coalesce()


def _sparse_sparse_matmul(self: Tensor, other: Tensor) -> Tensor:
    for number, x in enumerate((self, other), 1):
        if x.dense_dim() != 0:
            raise RuntimeError(f"sparse_mm: scalar values expected, mat{number} got {x.dense_dim()}D values")
    if self.shape[1] != other.shape[0]:
        shapes = "x".join(map(str, self.shape)), "x".join(map(str, other.shape))
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({shapes[0]} and {shapes[1]})")
    if self.dtype != other.dtype:
        raise RuntimeError(f"mat1 dtype {self.dtype} does not match mat2 dtype {other.dtype}")
    (rows, inner), (outer, columns) = self._indices().unbind(0), other._indices().unbind(0)
    left, right = _matches("_sparse_sparse_matmul", outer, inner)
    indices = torch.stack((rows[left], columns[right]))
    return coo(indices, self._values()[left] * other._values()[right], (self.shape[0], other.shape[1])).coalesce()


# ---- masks ----


def _project(self: Tensor, mask: Tensor, accumulate_matches: bool = False) -> Tensor:
    """_sparse_mask_projection: self with zeros where the mask has no element, or times how many it has there."""
    if self.shape != mask.shape:
        raise RuntimeError(f"sparse_mask(): operands have incompatible sizes: {self.shape} and {mask.shape}")
    sizes, values = _sparse_sizes(self), self._values()
    numbers, among = _numbers(self._indices(), sizes), _numbers(mask._indices(), sizes).sort().values
    counts = torch.searchsorted(among, numbers, right=True) - torch.searchsorted(among, numbers)
    counts = counts if accumulate_matches else (counts > 0).to(torch.int64)
    counts = counts.reshape(-1, *(1,) * (values.dim() - 1))
    return coo(self._indices().clone(), (values * counts).to(values.dtype), self.shape, self.is_coalesced())


def _at(self: Tensor, mask: Tensor) -> Tensor:
    """Return the values of self at the indices of the mask, and zeros where it has none."""
    sizes, indices = _sparse_sizes(mask), mask._indices()
    if self._nnz() == 0 or mask._nnz() == 0:
        values = self._values().new_zeros((mask._nnz(), *self._values().shape[1:]))
    else:
        self = self.coalesce()
        place, found = _find(_numbers(indices, sizes), _numbers(self._indices(), sizes))
        values = _where(found, self._values()[place])
    return coo(indices.clone(), values, mask.shape, mask.is_coalesced())


def _mask(self: Tensor, mask: Tensor) -> Tensor:
    if not (self.is_sparse and self.shape == mask.shape and self._nnz() and mask._nnz()):
        return _sparse_mask(self, mask)  # type: ignore[no-any-return]
    if self.sparse_dim() != mask.sparse_dim():
        raise RuntimeError(
            "sparse_mask(): the number of sparse dimensions in `self` should match that of the `mask`. Got "
            f"`self.sparse_dim() == {self.sparse_dim()}` != `mask.sparse_dim() == {mask.sparse_dim()}`."
        )
    return self if self is mask else _at(self, mask)


# ---- softmax ----


def _groups(numbers: Tensor) -> Tensor:
    """Return a number below their count for each of some numbers, the same for equal ones."""
    ordered, order = numbers.sort(stable=True)
    changes = torch.cat((ordered.new_zeros(1), (ordered[1:] != ordered[:-1]).to(torch.int64)))
    return torch.empty_like(order).scatter_(0, order, changes.cumsum(0))


def _pools(self: Tensor, dim: int) -> Tensor:
    """Return for each element which others it has along a sparse dimension."""
    kept = [d for d in range(self.sparse_dim()) if d != dim]
    return _groups(_numbers(self._indices()[kept], [self.shape[d] for d in kept]))


def _softmax_of(self: Tensor, dim: int, half_to_float: bool, log: bool) -> Tensor:
    if half_to_float:
        raise RuntimeError("softmax with half to float conversion is not supported on xla")
    self, dim = self.coalesce(), _wrapped(dim, self.dim())
    values = self._values()
    if dim >= self.sparse_dim():
        along = dim - self.sparse_dim() + 1
        result = values.log_softmax(along) if log else values.softmax(along)
    elif self._nnz() == 0:
        result = values
    else:
        pools = _pools(self, dim)
        shifted = values - extreme_of_rows(torch.full_like(values, -torch.inf), pools, values, "amax")[pools]
        powers = shifted.exp()
        sums = add_rows(torch.zeros_like(values), pools, powers)[pools]
        result = shifted - sums.log() if log else powers / sums
    return coo(self._indices().clone(), result, self.shape, True)


def _softmax_backward(grad: Tensor, output: Tensor, dim: int, self: Tensor, log: bool) -> Tensor:
    output, dim = output.coalesce(), _wrapped(dim, self.dim())
    y, g = output._values(), _at(grad, output)._values()
    weight, terms = (y.exp(), g) if log else (y, y * g)
    if dim >= output.sparse_dim():
        sums = terms.sum(dim - output.sparse_dim() + 1, keepdim=True)
    elif output._nnz() == 0:
        sums = terms
    else:
        pools = _pools(output, dim)
        sums = add_rows(torch.zeros_like(terms), pools, terms)[pools]
    return coo(output._indices().clone(), g - weight * sums if log else terms - weight * sums, self.shape, True)


def _softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    return _softmax_of(self, dim, half_to_float, False)


def _log_softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    return _softmax_of(self, dim, half_to_float, True)


def _softmax_backward_data(grad_output: Tensor, output: Tensor, dim: int, self: Tensor) -> Tensor:
    return _softmax_backward(grad_output, output, dim, self, False)


def _log_softmax_backward_data(grad_output: Tensor, output: Tensor, dim: int, self: Tensor) -> Tensor:
    return _softmax_backward(grad_output, output, dim, self, True)


add(
    SPARSE,
    {
        "_coalesce": _coalesce,
        "_sparse_log_softmax": _log_softmax,
        "_sparse_log_softmax_backward_data": _log_softmax_backward_data,
        "_sparse_mask_projection": _project,
        "_sparse_softmax": _softmax,
        "_sparse_softmax_backward_data": _softmax_backward_data,
        "_sparse_sparse_matmul": _sparse_sparse_matmul,
        "_sparse_sum_backward": _sum_backward,
        "add.out": _add_out,
        "addmm": _addmm,
        "addmm.out": _addmm_out,
        "addmm_": _addmm_,
        "bmm": _bmm,
        "bmm.out": _bmm_out,
        "hspmm": _hspmm,
        "index_select": _index_select,
        "mul.out": _mul_out_,
        "sparse_mask": _mask,
    },
)


def _validate(
    indices: Tensor, values: Tensor, size: Sequence[int], is_coalesced: bool | None = None, check_pinning: Any = None
) -> None:
    """_validate_sparse_coo_tensor_args: raise for indices that are not right; looks at them."""
    like = torch.empty((), dtype=values.dtype).expand(values.shape)
    _aten._validate_sparse_coo_tensor_args.default(indices.cpu(), like, size, is_coalesced, check_pinning)


_make = by_torch("sparse_coo_tensor.indices_size", "CPU")


def _made(
    indices: Tensor, values: Tensor, size: Sequence[int], *, is_coalesced: bool | None = None, **options: Any
) -> Tensor:
    """sparse_coo_tensor.indices_size. Torch's check of ``is_coalesced`` is only for devices that it knows."""
    invariants: Any = torch.sparse.check_sparse_tensor_invariants
    checked = is_coalesced and invariants.is_enabled()
    if checked:
        _validate(indices, values, size, True)
    with invariants(enable=False) if checked else contextlib.nullcontext():
        return _make(indices, values, size, is_coalesced=is_coalesced, **options)  # type: ignore[no-any-return]


add(KERNELS, {"_validate_sparse_coo_tensor_args": _validate})
add(DIFFERENTIABLE, {"sparse_coo_tensor.indices_size": _made})
add(UNSIZED, {"_embedding_bag_backward": _bag_backward})
