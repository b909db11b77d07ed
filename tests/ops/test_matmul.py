"""Matrix products equal torch on the CPU."""

import math

import pytest
import torch
import torch.nn.functional as F
from cpu_reference import Batch, check_errors, check_opinfo
from rounded import HALVES, check_halves

TYPES = (
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.float16,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.complex64,
)

OPS = """
    mm bmm addmm baddbmm mv addmv dot vdot outer matmul __rmatmul__ inner einsum tensordot linalg.multi_dot
    nn.functional.linear nn.functional.scaled_dot_product_attention
""".split()

ROWS = """
    mm bmm addmm baddbmm addbmm mv addmv dot vdot addr _addmm_activation _int_mm _scaled_mm _trilinear
    _scaled_dot_product_fused_attention_overrideable _scaled_dot_product_fused_attention_overrideable_backward
    _fused_sdp_choice
""".split()


@pytest.mark.parametrize("name", OPS)
def test_opinfo(name):
    # gradients of attention sum terms of opposite sign up to 50, those of a product of five matrices up to 6000, which
    # the CPU itself rounds by 1e-3; dropout draws other numbers on every device
    check_opinfo(
        name,
        TYPES,
        tolerance={torch.float32: (1e-5, 2e-3 if name == "linalg.multi_dot" else 5e-5)},
        skip=lambda _, s: s.kwargs.get("dropout_p", 0) > 0,
    )


@pytest.mark.parametrize("name", ["addbmm", "addr", "nn.functional.bilinear"])
def test_opinfo_halves(name):
    check_opinfo(name, [d for d in TYPES if d not in HALVES])
    check_halves(name)


@pytest.mark.parametrize("name", OPS)
def test_errors(name):
    check_errors(name)


def test_zero_beta_ignores_self():
    batch = Batch()
    a, b, nan = torch.randn(3, 4), torch.randn(4, 5), torch.full((5,), math.nan)
    batch.add("addmm", lambda s, a, b: torch.addmm(s, a, b, beta=0), nan, a, b)
    batch.add("addmv", lambda s, a, b: torch.addmv(s, a, b, beta=0), nan[:3], a, b[:, 0])
    batch.add("baddbmm", lambda s, a, b: torch.baddbmm(s, a, b, beta=0), nan, a[None], b[None])
    batch.add("addr", lambda s, a, b: torch.addr(s, a, b, beta=0), nan, a[:, 0], b[0])
    batch.check()


def test_coefficients():
    batch = Batch()
    s, a, b = torch.randn(5), torch.randn(3, 4), torch.randn(4, 5)
    for beta, alpha in ((0.3, 0.7), (1, 2), (1.5, 1), (0.25, 3)):
        batch.add(f"{beta} {alpha}", lambda s, a, b, x=beta, y=alpha: torch.addmm(s, a, b, beta=x, alpha=y), s, a, b)
    batch.check()


def test_integer_products():
    batch = Batch()
    a, b = torch.randint(-100, 100, (5, 7), dtype=torch.int8), torch.randint(-100, 100, (7, 4), dtype=torch.int8)
    batch.add("_int_mm", torch._int_mm, a, b)
    batch.add("_int_mm u8", torch._int_mm, a.to(torch.uint8), b)
    for dtype in (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64):
        batch.add(f"mm wraps {dtype}", torch.mm, a.to(dtype), b.to(dtype))
    batch.check()


def test_activation():
    batch = Batch()
    s, a, b = torch.randn(5), torch.randn(3, 4), torch.randn(4, 5)
    for gelu in (False, True):
        batch.add(f"{gelu}", lambda s, a, b, g=gelu: torch._addmm_activation(s, a, b, use_gelu=g), s, a, b)
    batch.check()


def test_wider_result():
    a, b = torch.randn(3, 4).bfloat16(), torch.randn(4, 5).bfloat16()
    out = torch.mm(a.to("xla"), b.to("xla"), out_dtype=torch.float32)
    assert out.dtype == torch.float32
    torch.testing.assert_close(out.cpu(), a.float() @ b.float())


def test_scaled_mm():
    a, b = torch.randn(16, 32).to(torch.float8_e4m3fn), torch.randn(32, 16).to(torch.float8_e4m3fn)
    x, y, bias = torch.tensor(0.5), torch.tensor(2.5), torch.randn(16)
    out = torch._scaled_mm(
        a.to("xla"), b.to("xla"), x.to("xla"), y.to("xla"), bias=bias.to("xla"), out_dtype=torch.float32
    )
    torch.testing.assert_close(out.cpu(), (a.float() * x) @ (b.float() * y) + bias)


def attention_cases():
    q, k, v = (torch.randn(2, 4, n, 8) for n in (5, 7, 7))
    yield "plain", (q, k, v), {}
    yield "causal", (q, k, v), {"is_causal": True}
    yield "scaled", (q, k, v), {"scale": 0.3}
    yield "boolean mask", (q, k, v, torch.rand(5, 7) > 0.3), {}
    yield "added mask", (q, k, v, torch.randn(2, 1, 5, 7)), {}
    yield "all masked", (q, k, v, torch.zeros(5, 7, dtype=torch.bool)), {}
    yield "grouped", (q, k[:, :2], v[:, :2]), {"enable_gqa": True}


def test_attention():
    batch = Batch()
    torch.manual_seed(0)
    for label, args, options in attention_cases():
        for dtype in (torch.float32, torch.bfloat16):
            moved = [x.to(dtype) if x.is_floating_point() else x for x in args]
            if dtype == torch.float32:
                moved = [x.requires_grad_(x.is_floating_point()) for x in moved]
            batch.add(
                f"{label} {dtype}",
                lambda *a, o=options: F.scaled_dot_product_attention(*a, **o),
                *moved,
                backward=dtype == torch.float32,
            )
    batch.check()


GROUPS = {
    "rows": ((12, 16), (3, 16, 8)),
    "columns": ((3, 8, 16), (16, 12)),
    "sums": ((8, 12), (12, 16)),
    "batches": ((3, 8, 16), (3, 16, 8)),
}


@pytest.mark.parametrize("name", GROUPS)
def test_products_of_groups(name: str) -> None:
    """Groups have sizes that are values: one of these is empty, and what is not finite stays in its group."""
    torch.manual_seed(0)
    x, y = (torch.randn(size) for size in GROUPS[name])
    ends = None if name == "batches" else torch.tensor([4, 4, 12], dtype=torch.int32)
    if name == "rows":
        y[0, 0, 0] = torch.nan
    results = []
    for device in ("cpu", "xla"):
        a, b = (t.to(device).requires_grad_() for t in (x.clone(), y.clone()))
        product = torch.nn.functional.grouped_mm(a, b, offs=None if ends is None else ends.to(device))
        product.nan_to_num().square().sum().backward()
        results.append([t.detach().cpu() for t in (product, a.grad, b.grad)])
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-4, equal_nan=True)
    if ends is not None:
        with pytest.raises(RuntimeError, match="Have to provide offsets"):
            torch.nn.functional.grouped_mm(x.to("xla"), y.to("xla"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.complex64], ids=str)
def test_one_row_by_a_transposed_matrix(dtype):
    """It is lowered as the matrix by a vector; a square one tells a transpose from none."""
    for shape in ((33, 40), (40, 40)):
        x = torch.randn(1, 40).to(dtype)
        weight, bias = torch.randn(shape).to(dtype), torch.randn(shape[0]).to(dtype)
        for f in (lambda x, w, b: x @ w.mT, lambda x, w, b: torch.addmm(b, x, w.mT), F.linear):
            got = f(*(t.to("xla") for t in (x, weight, bias)))
            torch.testing.assert_close(got.cpu(), f(x, weight, bias), rtol=2e-2, atol=1e-3)
    square = weight.to("xla")
    torch.testing.assert_close((x.to("xla") @ square).cpu(), x @ weight, rtol=2e-2, atol=1e-3)
