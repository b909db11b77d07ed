"""Ops of sparse tensors for which torch has kernels that are right for any device.

They read and write only metadata, or call other ops for the indices and values. Torch registers each for the CPU and
for CUDA alike. Here they are called by the dispatch key of the CPU, for tensors of the device.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from ..fallback import has_kernel, overload, schema_of
from ..kernels import KERNELS, SPARSE, SPARSE_COMPRESSED, Kernel, add

# Ops that keep zeros, in three forms: functional, out= and in place.
_UNARY = """
    abs asin asinh atan atanh ceil deg2rad erf erfinv expm1 floor frac log1p neg rad2deg round sgn sign sin sinh
    sqrt tan tanh trunc
""".split()

_BOTH = """
    _nnz _to_dense _to_sparse.sparse_dim add.Tensor add_.Tensor clone conj_physical.out copy_ dense_dim
    empty.memory_format empty_like isinf isnan isneginf isneginf.out isposinf isposinf.out mm mm.out mul.Tensor
    mul_.Tensor relu relu_ resize_as_sparse_ signbit signbit.out sparse_dim sum sum.dim_IntList threshold_backward
    threshold_backward.grad_input values zero_
""".split()
_BOTH += [f"{name}{form}" for name in _UNARY for form in ("", ".out", "_")]

COO = """
    _coalesced_ _dimI _dimV _indices _sparse_broadcast_to _sparse_coo_tensor_with_dims
    _sparse_coo_tensor_with_dims_and_tensors _to_sparse _to_sparse_bsc _to_sparse_bsr _to_sparse_csc _to_sparse_csr
    _values any cat copy_sparse_to_sparse_ div.Tensor div.Tensor_mode div.out div.out_mode div_.Tensor
    div_.Tensor_mode floor_divide floor_divide.out floor_divide_.Tensor indices is_coalesced linalg_vector_norm mv
    nan_to_num nan_to_num.out nan_to_num_ narrow_copy native_norm native_norm.ScalarOpt_dim_dtype norm.ScalarOpt_dim
    norm.ScalarOpt_dim_dtype permute pow.Tensor_Scalar pow.Tensor_Scalar_out sparse_resize_ sparse_resize_and_clear_
    sub.Tensor sub.out sub_.Tensor unsqueeze view_as_complex view_as_real zeros.out
""".split()
COO += _BOTH

COMPRESSED = """
    _conj_physical addmm angle angle.out ccol_indices col_indices conj_physical_ crow_indices fill_.Scalar
    mul.Scalar mul.out mul_.Scalar normal_ resize_ row_indices select.int select_copy.int sparse_mask
""".split()
COMPRESSED += _BOTH

# Of dense tensors.
DENSE = ["_to_sparse", "_to_sparse.sparse_dim", "_to_sparse_bsc", "_to_sparse_bsr", "_to_sparse_csc", "_to_sparse_csr"]


def as_tensor(x: torch.Tensor, other: Any) -> torch.Tensor:
    """Return an operand beside x: torch gives a kernel in Python the number that it has made a tensor of."""
    if isinstance(other, torch.Tensor):
        return other
    dtype = torch.result_type(x, other)
    if dtype == x.dtype:  # of all bits: a tensor without dimensions does not widen the result either
        dtype = torch.complex128 if dtype.is_complex else torch.float64 if dtype.is_floating_point else torch.int64
    return torch.scalar_tensor(other, dtype=dtype)


def by_torch(name: str, key: str) -> Kernel:
    """Return torch's kernel of an overload for another dispatch key."""
    op, keys = overload(name), torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))
    second = schema_of(op).args[1:2]
    if second and second[0].name == "other" and second[0].type == "Tensor":
        return lambda x, other, *args, **kwargs: op.redispatch(keys, x, as_tensor(x, other), *args, **kwargs)
    return lambda *args, **kwargs: op.redispatch(keys, *args, **kwargs)


def _kernels(names: Iterable[str], key: str) -> dict[str, Kernel]:
    """Return what this torch has of the kernels for a dispatch key."""
    return {name: by_torch(name, key) for name in names if has_kernel(f"aten::{name}", key)}


add(SPARSE, _kernels(COO, "SparseCPU"))
add(SPARSE_COMPRESSED, _kernels(COMPRESSED, "SparseCsrCPU"))
add(KERNELS, _kernels(DENSE, "CPU"))
