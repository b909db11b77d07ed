"""Both lowerings of the rows that have a kernel of torch: each agrees with torch on the CPU."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from torch_go_xla import _XLAC
from torch_go_xla._backend.core import recording
from torch_go_xla._core import core

L = torch.linalg


def r(*shape, dtype=torch.float32, seed=0):
    g = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(*shape, dtype=dtype, generator=g)
    return torch.randint(-9, 10, shape, generator=g).to(dtype)


def spd(n, *batch, dtype=torch.float32):
    a = r(*batch, n, n, dtype=dtype)
    return a @ a.mH + n * torch.eye(n, dtype=dtype)


def lower(n, *batch):
    return spd(n, *batch).tril()


def nans(*shape):
    x = r(*shape)
    x.view(-1)[:: max(x.numel() // 7, 1)] = float("nan")
    return x


def decomposed(f):
    """Return what does not depend on the phases of vectors."""

    def g(a):
        u, s, vh = f(a)
        return s, (u * s.unsqueeze(-2)) @ vh

    return g


def eigh(a):
    w, v = L.eigh(a)
    return w, (v * w.unsqueeze(-2)) @ v.mH


def ordered(x):
    """Return the values, twice: torch's order of equal elements is not defined."""
    values, places = torch.sort(x)
    return values, x.gather(-1, places)


attend = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
ATTENTION: list[tuple[str, tuple[Tensor, ...], dict[str, Any]]] = [
    ("dense", (r(2, 4, 100, 8), r(2, 4, 130, 8), r(2, 4, 130, 8, seed=1)), {}),
    ("causal", (r(2, 4, 100, 8), r(2, 4, 130, 8), r(2, 4, 130, 8, seed=1)), {"is_causal": True}),
    ("doubles", tuple(r(1, 4, 100, 8, dtype=torch.float64, seed=i) for i in range(3)), {"scale": 0.3}),
    ("half", tuple(r(1, 4, 100, 8, dtype=torch.bfloat16, seed=i) for i in range(3)), {"is_causal": True}),
    ("grouped", (r(1, 6, 100, 8), r(1, 2, 110, 8), r(1, 2, 110, 8, seed=1)), {"is_causal": True}),
    ("mask", (r(2, 4, 100, 8), r(2, 4, 130, 8), r(2, 4, 130, 8, seed=1)), {"attn_mask": r(2, 1, 100, 130)}),
    (
        "rows that see nothing",
        (r(2, 4, 100, 8), r(2, 4, 130, 8), r(2, 4, 130, 8, seed=1)),
        {"attn_mask": torch.where(torch.arange(100)[:, None] % 7 > 0, 0.0, -torch.inf).expand(100, 130).contiguous()},
    ),
]


def attention_forward(options, order):
    """Attend to tensors that lie as ``order`` says, and say no more of results than their values."""

    def f(*args):
        q, k, v, *mask = args
        given = {**options, "attn_mask": mask[0]} if mask else options
        q, k, v = (x.permute(order).contiguous().permute(order) for x in (q, k, v))
        return attend(q, k, v, **given)

    return f


def attention_backward(options, order):
    forward = attention_forward(options, order)

    def f(*args):
        leaves = [x.detach().requires_grad_() for x in args[:3]]
        out = forward(*leaves, *args[3:])[0]
        return torch.autograd.grad((out * out.detach().cos()).sum(), leaves)

    return f


def attention(make) -> list[tuple[Callable, tuple[Tensor, ...]]]:
    """Return the cases of a pass, dense and with the sequence before the heads."""
    return [
        (
            make({k: v for k, v in options.items() if k != "attn_mask"}, order),
            (*args, *(v for k, v in options.items() if k == "attn_mask")),
        )
        for _, args, options in ATTENTION
        for order in ((0, 1, 2, 3), (0, 2, 1, 3))
    ]


Case = tuple[Callable, tuple[Tensor, ...]]
MATRICES = [
    r(96, 96),
    r(2, 3, 100, 100),
    r(100, 100, dtype=torch.float64),
    r(96, 96, dtype=torch.complex64),
    r(130, 97).mT,
]
SQUARES = MATRICES[:4] + [r(100, 100).mT]
ROWS: list[Tensor] = [
    r(5000),
    r(80, 64, 3).transpose(0, 2),
    r(70, 100, dtype=torch.float64),
    r(60, 100, dtype=torch.bfloat16),
    r(5000, dtype=torch.int64),
    r(90, 64, dtype=torch.int8),
    nans(90, 64),
    torch.zeros(5000),
]
LONG = [torch.cat([x.reshape(-1)] * 4).reshape(4, -1) for x in ROWS]

CASES: dict[str, list[Case]] = {
    "linalg_cholesky_ex": [
        (lambda a: L.cholesky_ex(a), (spd(n, *b, dtype=d),))
        for n, b, d in [(64, (), torch.float32), (9, (8,), torch.float64), (70, (2,), torch.complex64)]
    ]
    + [(lambda a: L.cholesky_ex(a, upper=True), (spd(70),)), (lambda a: L.cholesky_ex(a)[1], (-torch.eye(64),))],
    "cholesky_inverse": [
        (torch.cholesky_inverse, (L.cholesky(spd(64)),)),
        (lambda a: torch.cholesky_inverse(a, upper=True), (L.cholesky(spd(70, 2)).mT,)),
    ],
    "_cholesky_solve_helper": [
        (torch.cholesky_solve, (r(2, 64, 3), L.cholesky(spd(64, 2)))),
        (torch.cholesky_solve, (r(64, 3), L.cholesky(spd(64)))),
    ],
    "linalg_lu_factor_ex": [(L.lu_factor_ex, (a,)) for a in MATRICES]
    + [(L.det, (a / 10,)) for a in SQUARES[:1]]
    + [(L.slogdet, (a,)) for a in SQUARES]
    + [(lambda a: L.lu_factor_ex(a)[2], (torch.zeros(64, 64),))],
    "linalg_lu": [(L.lu, (a,)) for a in MATRICES],
    "linalg_lu_solve": [
        (L.lu_solve, (*L.lu_factor(r(64, 64)), r(64, 3))),
        (lambda *a: L.lu_solve(*a, adjoint=True), (*L.lu_factor(r(2, 64, 64)), r(2, 64, 3))),
        (lambda *a: L.lu_solve(*a, left=False), (*L.lu_factor(r(64, 64)), r(3, 64))),
    ],
    "_linalg_solve_ex": [(L.solve_ex, (a, a[..., :3].clone())) for a in SQUARES]
    + [(L.solve_ex, (r(64, 64), r(64))), (lambda a, b: L.solve_ex(a, b, left=False), (r(64, 64), r(3, 64)))],
    "linalg_inv_ex": [(L.inv_ex, (a,)) for a in SQUARES],
    "linalg_solve_triangular": [
        (lambda a, b: L.solve_triangular(a, b, upper=False), (lower(100), r(100, 3))),
        (lambda a, b: L.solve_triangular(a, b, upper=True), (lower(100).mT, r(2, 100, 3))),
        (lambda a, b: L.solve_triangular(a, b, upper=False, left=False), (lower(100, 2), r(2, 3, 100))),
        (lambda a, b: L.solve_triangular(a, b, upper=False, unitriangular=True), (lower(100) / 100, r(100, 3))),
    ],
    "triangular_solve": [
        (lambda b, a: torch.triangular_solve(b, a, upper=False), (r(2, 100, 3), lower(100))),
        (lambda b, a: torch.triangular_solve(b, a, upper=False, transpose=True), (r(100, 3), lower(100))),
    ],
    "geqrf": [(torch.geqrf, (a,)) for a in MATRICES],
    "linalg_qr": [(L.qr, (a,)) for a in MATRICES]
    + [(lambda a: L.qr(a, mode="complete"), (r(110, 20),)), (lambda a: L.qr(a, mode="r")[1], (r(110, 20),))],
    "linalg_householder_product": [(L.householder_product, torch.geqrf(r(110, 20)))],
    "ormqr": [(lambda a, t, c: torch.ormqr(a, t, c), (*torch.geqrf(r(110, 110)), r(110, 5)))],
    "_linalg_svd": [(decomposed(lambda a: L.svd(a, full_matrices=False)), (a,)) for a in MATRICES]
    + [(L.svdvals, (r(3, 40, 30),)), (lambda a: [t.shape for t in L.svd(a)] and L.svd(a)[1], (r(40, 30),))],
    "_linalg_eigh": [
        (eigh, (spd(n, *b, dtype=d),))
        for n, b, d in [(32, (), torch.float32), (24, (3,), torch.float64), (40, (), torch.complex128)]
    ]
    + [(L.eigvalsh, (spd(30),)), (lambda a: L.eigvalsh(a, UPLO="U"), (r(30, 30),))],
    "linalg_matrix_exp": [(L.matrix_exp, (r(2, 192, 192) / 192,))],
    "sort": [(ordered, (x,)) for x in ROWS],
    "sort.stable": [(lambda x: torch.sort(x, dim=0, stable=True, descending=True), (x,)) for x in ROWS]
    + [(lambda x: torch.sort(x, stable=True), (r(5000) > 0,))],
    "topk": [(lambda x: torch.topk(x, 3)[0], (x,)) for x in ROWS]
    + [(lambda x: torch.topk(x, 3, dim=0, largest=False)[0], (x,)) for x in ROWS]
    + [(lambda x: torch.topk(x, 9), (torch.randperm(5000).float(),))],
    "kthvalue": [(lambda x: torch.kthvalue(x, 2, keepdim=True)[0], (x,)) for x in ROWS],
    "median": [(torch.median, (x,)) for x in ROWS],
    "nanmedian": [(torch.nanmedian, (x,)) for x in ROWS],
    "median.dim": [(lambda x: torch.median(x, 0)[0], (x,)) for x in ROWS],
    "nanmedian.dim": [(lambda x: torch.nanmedian(x, -1, True)[0], (x,)) for x in ROWS],
    "mode": [(lambda x: torch.mode(x, -1)[0], (x,)) for x in LONG if not x.isnan().any()],
    "cumsum": [(lambda x: torch.cumsum(x, -1), (x,)) for x in LONG]
    + [(lambda x: torch.cumsum(x, 0, dtype=torch.float64), (x,)) for x in LONG],
    "cumprod": [(lambda x: torch.cumprod(x, 0), (x,)) for x in LONG],
    "cummax": [(lambda x: torch.cummax(x, -1), (x,)) for x in LONG],
    "cummin": [(lambda x: torch.cummin(x, 0), (x,)) for x in LONG],
    "logcumsumexp": [(lambda x: torch.logcumsumexp(x, -1), (x,)) for x in LONG if x.is_floating_point()],
    "_fft_r2c": [
        (torch.fft.rfft, (r(1 << 15),)),
        (lambda x: torch.fft.rfftn(x, dim=(0, 1), norm="ortho"), (r(40, 60, 20, dtype=torch.float64),)),
        (lambda x: torch.fft.fft(x, dim=0), (r(200, 200).mT,)),
    ],
    "_fft_c2c": [
        (torch.fft.ifft, (r(1 << 15, dtype=torch.complex64),)),
        (torch.fft.fft2, (r(3, 111, 100, dtype=torch.complex128),)),
    ],
    "_fft_c2r": [
        (torch.fft.irfft, (r(1 << 15, dtype=torch.complex64),)),
        (lambda x: torch.fft.irfftn(x, dim=(0, 1)), (r(300, 120, dtype=torch.complex128),)),
    ],
    "mm": [
        (torch.mm, (r(128, 130, dtype=torch.int64) << 40, r(130, 140, dtype=torch.int64))),
        (torch.mm, (r(128, 130, dtype=torch.int64).mT, r(140, 128, dtype=torch.int64).mT)),
        (torch.mm, (r(128, 130, dtype=torch.int8), r(130, 140, dtype=torch.int8))),
        (torch.mm, (r(128, 130, dtype=torch.uint8), r(130, 140, dtype=torch.uint8))),
    ],
    "bmm": [(torch.bmm, (r(16, 64, 60, dtype=torch.int64), r(16, 60, 70, dtype=torch.int64)))],
    "_scaled_dot_product_flash_attention_for_cpu": attention(attention_forward),
    "_scaled_dot_product_flash_attention_for_cpu_backward": attention(attention_backward),
    "grid_sampler_2d": [
        (lambda x, g, o=options: F.grid_sample(x, g, align_corners=False, **o), (r(4, 8, 64, 64), r(4, 64, 64, 2)))
        for options in ({}, {"mode": "nearest", "padding_mode": "border"}, {"mode": "bicubic"})
    ],
}


def both(f, args):
    """Return the results on the device and on the CPU, and the ops of torch that the program calls."""
    with recording():  # decompositions read no value to check it
        got = f(
            *(
                a.to("xla")
                if a.is_contiguous()
                else a.mT.to("xla").mT
                if a.dim() == 2
                else a.transpose(0, 2).to("xla").transpose(0, 2)
                for a in args
            )
        )
    want = f(*args)
    got, want = ((t,) if isinstance(t, Tensor) else tuple(t) for t in (got, want))
    ops = re.findall(r'"torch_op".*?op = "([^"]+)"', _XLAC._get_xla_tensors_hlo(list(got)))
    return got, want, ops


def tolerance(t: Tensor) -> dict[str, float]:
    wide = {torch.float64: 1e-8, torch.complex128: 1e-8, torch.bfloat16: 2e-2}
    x = wide.get(t.dtype, 2e-3)
    return {
        "rtol": x,
        "atol": x * max(1.0, float(t.abs().nan_to_num().max())) if t.numel() and not t.dtype == torch.bool else x,
    }


def agree(f, args):
    got, want, ops = both(f, args)
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        torch.testing.assert_close(a.cpu(), b, equal_nan=True, **tolerance(b))
    return ops


@pytest.mark.parametrize("row", CASES)
def test_torchs_kernel(row):
    for f, args in CASES[row]:
        assert row in agree(f, args)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_the_rows_own_lowering(ok, part):
    assert ok("torchcpu_table/own_lowering.py", str(part), TORCH_GO_XLA_TORCH_KERNELS="0") == "all agree\n"


def test_every_kernel_has_a_case():
    """The kernels of convolutions, poolings and of what LAPACK alone computes have tests of their own."""
    rows = [row["name"] for row in core.op_table() if row["torch"]]
    elsewhere = [x for x in rows if "::" in x or "conv" in x or "pool" in x]
    assert sorted(set(rows) - set(elsewhere) - {"_logcumsumexp"}) == sorted(CASES)


@pytest.mark.parametrize(
    "f",
    [
        lambda a: L.cholesky(-a),
        lambda a: L.inv(a * 0),
        lambda a: L.solve(a * 0, a),
        lambda a: L.svd(a * float("nan")),
        lambda a: L.svdvals(a * float("nan")),
    ],
)
def test_errors_are_torchs(f):
    a = torch.eye(96)
    with pytest.raises(RuntimeError) as want:
        f(a)
    with pytest.raises(L.LinAlgError) as got:
        for t in y if isinstance(y := f(a.to("xla")), tuple) else (y,):
            t.cpu()
    assert str(want.value) in str(got.value)


def test_gradients():
    def f(a):
        a = a.detach().requires_grad_()
        s = a @ a.mT + 96 * torch.eye(96, device=a.device)
        y = L.cholesky(s).sum() + L.solve(s, a).sum() + L.inv(s).sum() + L.slogdet(s)[1] + L.qr(a)[1].abs().sum()
        y = (
            y
            + L.svdvals(a).sum()
            + L.eigvalsh(s).sum()
            + torch.sort(a)[0].square().sum()
            + torch.cumsum(torch.cat([a, a]), 0).sin().sum()
        )
        y.backward()
        return a.grad

    a = r(96, 96)
    torch.testing.assert_close(f(a.to("xla")).cpu(), f(a), rtol=2e-3, atol=2e-3)
