"""Linear algebra that is made of rows: least squares, the factorizations that raise when asked to, those of torch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .. import fallback
from ..core import is_recording, native
from ..kernels import AROUND_ROWS, KERNELS, Kernel, add

# Overloads with check_errors, and the names that torch's message gives them. The info is their last result.
_CHECKED = {
    "linalg_cholesky_ex": "torch.linalg.cholesky_ex",
    "linalg_inv_ex": "linalg.inv_ex",
    "linalg_lu_factor_ex": "torch.linalg.lu_factor_ex",
    "_linalg_solve_ex": "torch.linalg.solve_ex",
}


def _checking(kernel: Kernel, name: str) -> Kernel:
    """Return the kernel of a factorization that can raise, made of one that cannot."""

    def checked(*args: Any, check_errors: bool = False, **kwargs: Any) -> Any:
        results = kernel(*args, **kwargs)
        if check_errors:  # waits for the device
            torch._linalg_check_errors(results[-1], name, is_matrix=args[0].dim() == 2)
        return results

    return checked


def _raising(kernel: Kernel, name: str, values: int, info: Callable[..., Tensor]) -> Kernel:
    """Return the kernel of a decomposition that raises where torch's does, as ``info`` of operand and results says.

    That waits for the device, as torch does on a GPU. A function that is being recorded has NaN instead. ``values`` is
    the index of the singular values or eigenvalues: without a NaN in the operand and in them nothing has failed. Sums
    tell that in few kernels; those that overflow only ask ``info`` in vain.
    """

    def checked(a: Tensor, *args: Any, **kwargs: Any) -> Any:
        results = kernel(a, *args, **kwargs)
        if a.numel() and not is_recording():
            with torch.no_grad():
                if (a.sum() + results[values].sum()).isnan():
                    torch._linalg_check_errors(info(a, *results), name, is_matrix=a.dim() == 2)
        return results

    return checked


def _svd_info(a: Tensor, u: Tensor, s: Tensor, vh: Tensor) -> Tensor:
    """Return LAPACK's info: -4 for NaN, and how many values have not converged.

    Without vectors, and of one or two values, LAPACK's and MKL's algorithms give NaN for infinite elements.
    """
    failed = s.isnan().sum(-1, dtype=torch.int32) if u.numel() and s.shape[-1] > 2 else 0
    return torch.where(a.isnan().any(-1).any(-1), -4, failed).to(torch.int32)


def _eigh_info(a: Tensor, values: Tensor, vectors: Tensor) -> Tensor:
    """Return how many values have not converged; those of one or two are by a formula."""
    return values.isnan().sum(-1, dtype=torch.int32) * (values.shape[-1] > 2)


def _of_transpose(kernel: Kernel) -> Kernel:
    """Return the kernel of a determinant, whose factors are those that torch's derivatives expect."""

    def determinant(a: Tensor) -> Any:
        # The backward formula takes the factors of a contiguous real matrix for those of its transpose.
        return kernel(a.mT if a.is_contiguous() and not a.is_complex() else a)

    return determinant


def lstsq(
    self: Tensor, b: Tensor, rcond: float | None = None, *, driver: str | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """linalg_lstsq: by Q R for the driver gels, which takes a full rank for granted, else by singular values."""
    driver = driver or "gelsy"
    _check(self, b, driver)
    m, n = self.shape[-2:]
    is_vector = b.dim() == 1 or (self.dim() - 1 == b.dim() and b.shape == self.shape[:-1])
    right = b.unsqueeze(-1) if is_vector else b
    batch = torch.broadcast_shapes(self.shape[:-2], right.shape[:-2])  # type: ignore[no-untyped-call]
    a, right = self.expand(*batch, m, n), right.expand(*batch, m, right.shape[-1])
    rank = torch.empty(0, dtype=torch.int64, device=self.device)
    values = torch.empty(0, dtype=self.real.dtype, device=self.device)
    if driver == "gels":
        solution = _by_qr(a, right)
    else:
        u, s, vh = torch.linalg.svd(a, full_matrices=False)
        rcond = torch.finfo(self.dtype).eps * max(m, n) if rcond is None or rcond < 0 else rcond
        kept = s > rcond * s[..., :1]
        inverse = torch.where(kept, 1 / s, 0).to(self.dtype)
        solution = vh.mH @ (inverse.unsqueeze(-1) * (u.mH @ right))
        rank = kept.sum(-1)
        values = values if driver == "gelsy" else s
    residuals = torch.empty(0, dtype=self.real.dtype, device=self.device)
    if m > n and (driver == "gels" or (driver != "gelsy" and bool((rank == n).all()))):
        residuals = (a @ solution - right).abs().square().sum(-2)
    return solution.squeeze(-1) if is_vector else solution, residuals, rank, values


def _check(a: Tensor, b: Tensor, driver: str) -> None:
    name = "torch.linalg.lstsq"
    if a.dim() < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if b.dim() < 1:
        raise RuntimeError(f"{name}: other must have at least 1 dimension.")
    if a.dtype != b.dtype:
        raise RuntimeError(
            f"{name}: Expected input and other to have the same dtype, but got {a.dtype} and {b.dtype} instead"
        )
    if a.dim() - b.dim() not in (0, 1):
        raise RuntimeError(f"{name}: input.dim() must be greater or equal to other.dim() by at most one")
    if a.dim() == b.dim() and a.shape[-2] != b.shape[-2]:
        raise RuntimeError(f"{name}: input.size(-2) should match other.size(-2)")
    if a.dim() - 1 == b.dim() and a.shape[-2] != b.shape[-1]:
        raise RuntimeError(f"{name}: input.size(-2) should match other.size(-1)")
    if driver not in ("gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(f"{name}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)")


def _by_qr(a: Tensor, b: Tensor) -> Any:
    if a.shape[-2] >= a.shape[-1]:
        q, r = torch.linalg.qr(a)
        return torch.linalg.solve_triangular(r, q.mH @ b, upper=True)
    q, r = torch.linalg.qr(a.mH)
    return q @ torch.linalg.solve_triangular(r.mH, b, upper=False)


def _by_torch(name: str, *truths: str) -> Kernel:
    """Return the kernel of an op that torch computes, within the program where it may call torch."""
    op = getattr(torch.ops.aten, name).default

    def kernel(*args: Any, **kwargs: Any) -> Any:
        if native().torch_kernels():
            return getattr(torch.ops.torch_go_xla, name)(*args, *(kwargs.get(t, False) for t in truths))
        return fallback.on_cpu(op, args, kwargs)

    return kernel


add(
    KERNELS,
    {
        "linalg_lstsq": lstsq,
        "linalg_eig": _by_torch("linalg_eig"),
        "_linalg_eigvals": _by_torch("_linalg_eigvals"),
        "linalg_ldl_factor_ex": _checking(_by_torch("linalg_ldl_factor_ex", "hermitian"), "torch.linalg.ldl_factor_ex"),
        "linalg_ldl_solve": _by_torch("linalg_ldl_solve", "hermitian"),
    },
)
add(AROUND_ROWS, {key: functools.partial(_checking, name=name) for key, name in _CHECKED.items()})
add(AROUND_ROWS, {"_linalg_svd": functools.partial(_raising, name="linalg.svd", values=1, info=_svd_info)})
add(AROUND_ROWS, {"_linalg_eigh": functools.partial(_raising, name="linalg.eigh", values=0, info=_eigh_info)})
add(AROUND_ROWS, {key: _of_transpose for key in ("_linalg_det", "_linalg_slogdet")})
