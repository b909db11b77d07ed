"""Elementwise ops equal torch on the CPU."""

import itertools
from functools import partial

import pytest
import torch
from cpu_reference import Batch, check_errors
from elementwise import ALL, COMPLEX, FLOATS, INTEGERS, check_cases, check_samples, special_values

import torch_go_xla

ELEMENTARY = """
    exp expm1 log log1p sqrt rsqrt sin cos tan tanh asin acos atan sinh cosh asinh acosh atanh log2 log10 exp2 sigmoid
    reciprocal sinc square
""".split()
PARTS = """
    neg floor ceil trunc round frac sign sgn bitwise_not abs nan_to_num logical_not isnan isinf isposinf isneginf
    signbit isfinite isreal deg2rad rad2deg clone positive frexp
""".split()
ARITHMETIC = """
    add sub rsub mul div floor_divide remainder fmod pow addcmul addcdiv lerp atan2 hypot nextafter logaddexp logaddexp2
    xlogy copysign float_power true_divide __radd__ __rsub__ __rmul__ __rdiv__ __rmod__ __rpow__ ldexp
""".split()
INTEGRAL = """
    bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift gcd lcm __rand__ __ror__ __rxor__
""".split()
CHOICE = """
    maximum minimum fmax fmin heaviside clamp clamp_min clamp_max eq ne lt le gt ge logical_and logical_or logical_xor
    where isclose fill zero_ masked_fill
""".split()
GROUPS = {"elementary": ELEMENTARY, "parts": PARTS, "arithmetic": ARITHMETIC, "integral": INTEGRAL, "choice": CHOICE}

# One of each kind; the other types have the tests of special values.
SAMPLED = (torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.complex64)

# Chains of ops round to the half type in between on the CPU, where a compiled program keeps float32.
CHAINS = {torch.bfloat16: (3.2e-2, 1.6e-2), torch.float16: (4e-3, 2e-3)}
# Float32 powers of complex numbers: the CPU's own error is some units in the last place.
POWERS = {torch.complex64: (2e-5, 1e-5), torch.float32: (1e-5, 1e-5)}
ROWS = [*ELEMENTARY, *PARTS, *ARITHMETIC, *INTEGRAL, *CHOICE, "conj_physical", "angle", "_conj_physical", "rsub"]


@pytest.mark.parametrize("dtype", SAMPLED, ids=str)
@pytest.mark.parametrize("group", GROUPS)
def test_samples(group, dtype):
    check_samples(GROUPS[group], dtype, tolerance=CHAINS | POWERS)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
@pytest.mark.parametrize("group", ["elementary", "arithmetic", "choice"])
def test_gradients(group, dtype):
    check_samples(GROUPS[group], dtype, backward=True, tolerance=POWERS)


@pytest.mark.parametrize("name", list(itertools.chain.from_iterable(GROUPS.values())))
def test_errors(name):
    check_errors(name)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_special_values_of_one(dtype):
    batch = Batch({torch.float32: (1e-5, 1e-5)})
    x = special_values(dtype)
    skip = set()
    if dtype in COMPLEX:
        # branch cuts and poles, where the sign of a zero decides and torch follows the C library
        skip = {
            "log",
            "log2",
            "log10",
            "log1p",
            "asin",
            "acos",
            "atan",
            "asinh",
            "acosh",
            "atanh",
            "tan",
            "tanh",
            "sigmoid",
        }
        skip |= {"reciprocal", "rsqrt", "sqrt", "sinc"}
    for name in [*ELEMENTARY, *PARTS]:
        function = getattr(torch, name)
        try:
            function(x)
        except (RuntimeError, TypeError):
            continue
        if name not in skip:
            batch.add(f"{name} {dtype}", function, x)
    batch.check()


PAIRS = """
    add sub mul div floor_divide remainder fmod pow atan2 hypot nextafter logaddexp logaddexp2 xlogy copysign maximum
    minimum fmax fmin eq ne lt le gt ge logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor
    bitwise_left_shift bitwise_right_shift gcd lcm heaviside
""".split()


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, torch.bool], ids=str)
def test_special_values_of_two(dtype):
    batch = Batch({torch.float32: (1e-5, 1e-5)})
    values = special_values(dtype)
    x, y = values[:, None], values[None, :]
    for name in PAIRS:
        function = getattr(torch, name)
        divisor = y
        if not dtype.is_floating_point and name in ("floor_divide", "remainder", "fmod"):
            divisor = torch.where(y == 0, torch.ones_like(y), y)
        try:
            function(x, divisor)
        except (RuntimeError, TypeError):
            continue
        batch.add(f"{name} {dtype}", function, x, divisor)
    batch.check()


@pytest.mark.parametrize(
    "name", ["add", "sub", "mul", "div", "pow", "maximum", "eq", "lt", "bitwise_and", "atan2", "floor_divide"]
)
def test_promotion(name):
    function = getattr(torch, name)
    numbers = (True, 2, 2.5, 2j)
    wrong = []
    for a, b in itertools.product(ALL, (*ALL, *numbers)):
        for zero_dim in (False, True):
            outcomes = []
            for device in ("cpu", "xla"):
                x = torch.ones(3, device=device).to(a)
                y = b
                if isinstance(b, torch.dtype):
                    y = torch.ones(() if zero_dim else 3, device=device).to(b)
                try:
                    outcomes.append(function(x, y).dtype)
                except (RuntimeError, TypeError) as error:
                    outcomes.append((type(error), str(error)))
            # complex numbers of half precision exist on the CPU alone
            half = outcomes[0] == torch.complex32 or any(
                name in str(outcomes[0]) for name in ("ComplexHalf", "BComplex32")
            )
            if outcomes[0] != outcomes[1] and not half:
                wrong.append((a, b, zero_dim, outcomes))
    assert wrong == []
    torch_go_xla.sync()


def tensor(*values, dtype=None):
    return torch.tensor(values, dtype=dtype)


def ints():
    return tensor(1, 2, 3)


def bytes_():
    return tensor(1, 200, 3, dtype=torch.uint8)


def floats():
    return tensor(float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.5, -2.5)


def test_numbers():
    check_cases([
        lambda: torch.addcmul(ints(), ints(), ints(), value=0.5),
        lambda: torch.addcmul(ints(), ints(), ints().float(), value=0.5),
        lambda: torch.addcmul(ints().float(), ints(), ints(), value=1j),
        lambda: torch.add(ints(), ints(), alpha=0.5),
        lambda: torch.add(ints(), ints(), alpha=True),
        lambda: torch.add(ints().bool(), ints().bool(), alpha=2),
        lambda: torch.add(ints().bool(), ints(), alpha=1.5),
        lambda: torch.sub(ints(), True),
        lambda: 1 - ints().bool(),
        lambda: torch.add(ints(), 1j),
        lambda: bytes_() + 300,
        lambda: 300 - bytes_(),
        lambda: bytes_() == 456,
        lambda: bytes_() < -1,
        lambda: bytes_() == 0.5,
        lambda: bytes_() * 2.5,
        lambda: bytes_() & 300,
        lambda: torch.fill(bytes_(), 300),
        lambda: torch.fill(bytes_(), -5),
        lambda: torch.fill(ints().half(), 1e6),
        lambda: torch.lerp(floats(), floats().double(), 0.5),
        lambda: torch.lerp(floats(), floats(), torch.tensor(0.5).double()),
        lambda: torch.lerp(floats(), floats(), torch.ones(7).double()),
        lambda: torch.lerp(floats(), floats(), 1j),
        lambda: torch.where(ints() > 1, 1, 0),
        lambda: torch.where(ints() > 1, 1.5, ints()),
        lambda: torch.where(ints(), 1, 2),
        lambda: torch.xlogy(0, floats()),
        lambda: torch.nan_to_num(floats().half(), 1e9, 2e9, None),
        lambda: torch.nan_to_num(tensor(complex(float("nan"), float("inf")))),
    ])  # fmt: skip


def test_bounds():
    check_cases([
        lambda: torch.clamp(ints(), 0.5, 2),
        lambda: torch.clamp(ints()),
        lambda: torch.clamp(tensor(True, False), 0, 1),
        lambda: torch.clamp(floats(), float("nan"), 1),
        lambda: torch.clamp(floats(), 2, 1),
        lambda: torch.clamp(ints(), 1j),
        lambda: torch.clamp(floats().half(), torch.tensor(1.0), None),
        lambda: torch.clamp(floats(), floats().flip(0), None),
        lambda: torch.clamp(bytes_(), 300),
        lambda: torch.clamp(bytes_(), None, -5),
        lambda: torch.clamp(bytes_(), -5, 300),
        lambda: torch.clamp_min(bytes_(), -5),
        lambda: torch.clamp_max(bytes_(), -5),
        lambda: torch.clamp(bytes_(), torch.tensor(-5), torch.tensor(300)),
        lambda: torch.clamp(ints().int(), -(2**40), 2**40),
        lambda: torch.clamp(ints().half(), -1e6, 1e6),
        lambda: torch.maximum(bytes_(), torch.tensor(300)),
        lambda: torch.maximum(ints(), floats()[:3]),
        lambda: torch.fmax(floats(), torch.tensor(float("nan"))),
    ])  # fmt: skip


def test_integers():
    check_cases([
        lambda: ints() // 0,
        lambda: ints() % 0,
        lambda: torch.fmod(ints(), 0),
        lambda: torch.div(ints(), 0, rounding_mode="trunc"),
        lambda: torch.div(ints(), ints(), rounding_mode="x"),
        lambda: ints() / 0,
        lambda: 5 % ints(),
        lambda: torch.remainder(5.5, ints()),
        lambda: torch.pow(ints(), -1),
        lambda: torch.pow(tensor(2, -1, 1, 0, -3), tensor(-1, -3, -2, -1, -2)),
        lambda: torch.pow(2, tensor(-1, 0, 3)),
        lambda: torch.pow(tensor(True, False), 2),
        lambda: torch.pow(tensor(True, False), tensor(True, False)),
        lambda: torch.pow(True, tensor(True, False)),
        lambda: torch.pow(ints(), 0.5),
        lambda: torch.pow(tensor(2, 3, dtype=torch.int8), 7),
        lambda: bytes_() << 9,
        lambda: bytes_() >> 9,
        lambda: bytes_() >> -1,
        lambda: tensor(-5, 5) >> 70,
        lambda: ints().float() << 1,
        lambda: 2 << ints(),
        lambda: ints().bool() << 1,
        lambda: torch.gcd(tensor(-4, 0, 0, -(2**63)), tensor(6, 0, -3, 2)),
        lambda: torch.lcm(tensor(-4, 0, 0), tensor(6, 0, -3)),
        lambda: torch.round(tensor(125, 135), decimals=-1),
        lambda: torch.round(tensor(125.0, 135.0, 0.135), decimals=-1),
        lambda: torch.round(floats(), decimals=2),
        lambda: torch.bitwise_and(ints(), 1.5),
        lambda: torch.bitwise_and(ints().bool(), 3),
        lambda: torch.log2(2.0 ** torch.arange(-120, 120)),
    ])  # fmt: skip


def test_in_place_and_out():
    check_cases([
        lambda: ints().add_(1.5),
        lambda: ints().div_(2),
        lambda: ints().exp_(),
        lambda: ints().pow_(-1),
        lambda: ints().lt_(2.5),
        lambda: ints().logical_not_(),
        lambda: ints().copy_(floats()[3:6] * 1.7),
        lambda: floats().add_(torch.ones(2, 7)),
        lambda: floats().clamp_(0, 1),
        lambda: floats().lerp_(floats() * 2, 0.3),
        lambda: ints().__ilshift__(2),
        lambda: ints().__irshift__(torch.tensor(1)),
        lambda: ints().__iand__(3),
        lambda: torch.ops.aten.copy(ints(), torch.ones(2, 3)),
        lambda: torch.fill(ints(), torch.ones(2)),
        lambda: torch.exp(ints(), out=torch.empty(3, dtype=torch.double)),
        lambda: torch.exp(floats(), out=torch.empty(7, dtype=torch.long)),
        lambda: torch.eq(ints(), ints(), out=torch.empty(3)),
        lambda: torch.where(floats() > 0, floats(), -floats(), out=torch.empty(7)),
        lambda: torch.pow(2, ints(), out=torch.empty(3, dtype=torch.long)),
        lambda: torch.frexp(floats(), out=(torch.empty(7), torch.empty(7, dtype=torch.int32))),
    ])  # fmt: skip


def test_exponents_of_subnormal_numbers():
    # frexp and nextafter work on the bits, which arithmetic would flush to zero
    check_cases([
        lambda: torch.frexp(tensor(1e-40, -3e-45, 1e-38)),
        lambda: torch.nextafter(tensor(1e-45, 0.0, -1e-45, 1.0), tensor(0.0, 1.0, 0.0, 0.0)).view(torch.int32),
        lambda: torch.nextafter(tensor(0.0, 1.0, dtype=torch.bfloat16), tensor(1.0, 2.0, dtype=torch.bfloat16)),
        lambda: torch.nextafter(tensor(0.0, 65504.0, dtype=torch.half), tensor(-1.0, float("inf"), dtype=torch.half)),
    ])  # fmt: skip


@pytest.mark.parametrize("dtype", (torch.int32, torch.uint8), ids=str)
def test_constants_divided_by_zero(dtype):
    """The compiler computes what is constant, with whatever the divisors are: a zero must not end the process."""
    x, zeros = (make(3, dtype=dtype, device="xla") for make in (torch.ones, torch.zeros))
    for divide in (
        torch.floor_divide,
        torch.remainder,
        torch.fmod,
        torch.gcd,
        torch.lcm,
        partial(torch.div, rounding_mode="trunc"),
    ):
        assert divide(x, zeros).cpu().dtype == dtype
    upto = torch.arange(3, dtype=dtype, device="xla")
    assert (5 % upto)[1:].tolist() == [0, 1] and (5 // upto)[1:].tolist() == [5, 2]
