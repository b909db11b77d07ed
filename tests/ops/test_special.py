"""Special functions equal torch on the CPU."""

import pytest
import torch
from cpu_reference import Batch, check_errors, op_db
from elementwise import check_cases, check_samples

NAMES = sorted({op.name for op in op_db if op.name.startswith("special.")})
NAMES += "erf erfc erfinv lgamma digamma polygamma i0 igamma igammac mvlgamma".split()
# Each kind has twelve terms and more, and a second kind differs by its coefficients alone.
HEAVY = [n for n in NAMES if "bessel" in n or "polynomial" in n or "polygamma" in n or "airy" in n]
LIGHT = [n for n in NAMES if n not in HEAVY]

# In float32 both sides are some units in the last place off, more where the function is steep.
FLOAT32 = {torch.float32: (2e-5, 1e-5), torch.bfloat16: (3.2e-2, 1.6e-2)}
ROWS = [n.replace(".", "_") for n in NAMES] + ["_standard_gamma_grad", "_dirichlet_grad"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("names", [LIGHT, HEAVY], ids=["light", "heavy"])
def test_samples(names, dtype):
    check_samples(names, dtype, tolerance=FLOAT32)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int64], ids=str)
def test_other_types(dtype):
    check_samples(LIGHT, dtype, tolerance=FLOAT32)


def test_gradients():
    check_samples(LIGHT, torch.float64, backward=True)


@pytest.mark.parametrize("name", NAMES)
def test_errors(name):
    check_errors(name)


def test_ranges():
    """Every range of the piecewise approximations, and the values between and beyond."""
    batch = Batch({torch.float64: (1e-7, 1e-9)})
    inf, nan = float("inf"), float("nan")
    x = torch.cat(
        [torch.linspace(-12, 12, 97), torch.tensor([-60.0, -27.0, 25.0, 60.0, 1e-6, inf, -inf, nan])]
    ).double()
    for name in """
        airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_i0 modified_bessel_i1 modified_bessel_k0
        modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0 i0 i0e i1 i1e erfcx
        log_ndtr ndtr entr digamma
    """.split():
        batch.add(name, getattr(torch.special, name), x)
    batch.add("lgamma", torch.lgamma, x)
    p = torch.tensor(
        [-0.1, 0.0, 1e-300, 1e-20, 1e-10, 0.01, 0.135, 0.136, 0.5, 0.864, 0.866, 0.99, 1.0, 1.1, nan]
    ).double()
    batch.add("ndtri", torch.special.ndtri, p)
    batch.add("erfinv", torch.erfinv, p)
    batch.check()


def test_polynomials():
    batch = Batch({torch.float64: (1e-7, 1e-9)})
    x = torch.tensor([-3.0, -1.0, -0.5, 0.0, 0.25, 0.5, 1.0, 1.5, 40.0]).double()[:, None]
    n = torch.tensor([-1.0, 0.0, 1.0, 2.0, 3.0, 7.0, 9.0, 12.0, 40.0]).double()[None, :]
    for name in """
        chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w
        shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v
        shifted_chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l
        legendre_polynomial_p
    """.split():
        function = getattr(torch.special, name)
        batch.add(name, function, x, n)
        batch.add(f"{name} of a number's degree", function, x, 3)
    batch.check()


def test_gamma_family():
    batch = Batch({torch.float64: (1e-6, 1e-9)})
    inf, nan = float("inf"), float("nan")
    a = torch.tensor([0.0, 1e-3, 0.3, 1.0, 2.5, 10.0, 50.0, 300.0, inf, -1.0, nan]).double()[:, None]
    x = torch.tensor([0.0, 1e-3, 0.4, 1.0, 3.0, 9.0, 55.0, 290.0, inf, -1.0, nan]).double()[None, :]
    batch.add("igamma", torch.igamma, a, x)
    batch.add("igammac", torch.igammac, a, x)
    q = torch.tensor([-5.5, -2.0, -0.5, 0.0, 0.3, 1.0, 8.0, 20.0, nan]).double()[None, :]
    order = torch.tensor([0.5, 1.0, 1.5, 2.0, 3.0, 10.0, nan]).double()[:, None]
    batch.add("zeta", torch.special.zeta, order, q)
    for n in range(4):
        batch.add(f"polygamma {n}", lambda q, n=n: torch.polygamma(n, q), q)
    batch.check()
    check_cases(
        [lambda: torch.polygamma(-1, torch.ones(2)), lambda: torch.polygamma(2, torch.ones(2, dtype=torch.complex64))]
    )


def test_sample_gradients():
    """The reparameterized gradients in every range of their approximations."""
    batch = Batch({torch.float64: (1e-6, 1e-9), torch.float32: (2e-4, 1e-5)})
    alpha = torch.tensor([0.1, 0.9, 3.0, 7.9, 8.1, 30.0, 400.0])[:, None]
    ratio = torch.tensor([0.05, 0.5, 0.95, 1.0, 1.05, 2.0])[None, :]
    for dtype in (torch.float32, torch.float64):
        a = alpha.to(dtype)
        batch.add("gamma", torch._standard_gamma_grad, a.expand(7, 6), a * ratio.to(dtype))
        x = torch.linspace(0.02, 0.98, 25, dtype=dtype)[None, None, :].expand(5, 5, 25)
        total = torch.tensor([0.3, 1.2, 5.0, 9.0, 40.0], dtype=dtype)
        first = total[:, None, None].expand(5, 5, 25)
        batch.add("beta", torch._dirichlet_grad, x, first, first + total[None, :, None])
    batch.check()
