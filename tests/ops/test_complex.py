"""Complex numbers equal torch on the CPU: making them, taking them apart, conjugates that wait."""

import pytest
import torch
from cpu_reference import Batch, check_errors
from elementwise import COMPLEX, check_cases, check_samples

OPS = (
    "complex polar conj_physical angle abs sgn real imag view_as_real view_as_complex resolve_conj resolve_neg".split()
)
ROWS = ["complex", "polar", "_conj_physical", "conj_physical", "angle", "abs", "sgn", "mul", "resolve_conj"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, *COMPLEX], ids=str)
def test_samples(dtype):
    check_samples(OPS, dtype, most=2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
def test_gradients(dtype):
    check_samples(OPS, dtype, most=2, backward=True)


@pytest.mark.parametrize("name", [op for op in OPS if op != "complex"])
def test_errors(name):
    check_errors(name)


def c():
    return torch.tensor([1 + 2j, -3j, 2.0, -1 - 1j])


def f():
    return torch.tensor([1.0, -2.0, 3.0])


def test_conjugates_and_views():
    check_cases([
        lambda: c().conj() + 1,
        lambda: c().conj().resolve_conj(),
        lambda: torch.conj_physical(c()),
        lambda: torch.conj_physical(c(), out=torch.empty(4, dtype=torch.complex64)),
        lambda: c().conj().imag,
        lambda: c().conj().imag.resolve_neg(),
        lambda: -c().imag,
        lambda: c().real * 2,
        lambda: c().conj() * c(),
        lambda: c() == c().conj(),
        lambda: c().conj().exp(),
        lambda: c().conj().sum(),
        lambda: torch.view_as_real(c()),
        lambda: torch.view_as_complex(torch.ones(3, 2)) * 1j,
        lambda: c().mul_(2),
        lambda: c().real.zero_(),
        lambda: torch.isreal(c()),
    ])  # fmt: skip


def test_arithmetic():
    check_cases([
        lambda: c() * 1.5j,
        lambda: f() * 1j,
        lambda: torch.tensor([1, 2]) * 1j,
        lambda: c() / c().conj(),
        lambda: c().reciprocal(),
        lambda: c() ** 2,
        lambda: c() ** -1,
        lambda: c() ** 0.5,
        lambda: c() ** (1 + 1j),
        lambda: torch.pow(2, c()),
        lambda: torch.exp2(c()),
        lambda: torch.lerp(c(), c() * 2, 0.25),
        lambda: torch.addcmul(c(), c(), c(), value=2j),
        lambda: torch.sign(c()),
        lambda: c() < c(),
        lambda: torch.floor(c()),
        lambda: torch.maximum(c(), c()),
        lambda: torch.signbit(c()),
        lambda: torch.isposinf(c()),
        lambda: torch.heaviside(c(), c()),
        lambda: c() // 2,
        lambda: torch.atan2(c(), c()),
    ], rtol=1e-5, atol=1e-6)  # fmt: skip


def test_makers_refuse():
    check_cases([
        lambda: torch.complex(f(), f().double()),
        lambda: torch.polar(f(), f().double()),
        lambda: torch.complex(f().bfloat16(), f().bfloat16()),
        lambda: torch.complex(f(), torch.ones(2)),
        lambda: torch.polar(torch.tensor([1, 2]), torch.tensor([1, 2])),
        lambda: torch.polar(torch.tensor([1.0, float("inf"), 0.0]), torch.tensor([0.0, 1.0, float("inf")])),
    ])  # fmt: skip


def test_not_finite():
    inf, nan = float("inf"), float("nan")
    parts = torch.tensor([0.0, 1.0, -inf, inf, nan])
    x = torch.complex(parts[:, None].expand(5, 5).contiguous(), parts[None, :].expand(5, 5).contiguous())
    batch = Batch()
    for name in ("abs", "isnan", "isinf", "isfinite", "conj_physical", "neg", "nan_to_num", "angle"):
        batch.add(name, getattr(torch, name), x)
    batch.check()


def test_powers_of_zero():
    z = torch.tensor([0, 0, 0, 0, 0, 1 + 1j], dtype=torch.complex64)
    e = torch.tensor([-1, -1 + 1j, 1j, -2, 1, -1], dtype=torch.complex64)
    batch = Batch()
    batch.add("tensor", torch.pow, z, e)
    batch.add("of a number", lambda e: torch.pow(0, e), e)
    for exponent in (-1, -2, -0.5, -1.5, 2):
        batch.add(f"to {exponent}", lambda z, n=exponent: z**n, z)
    batch.check()
