"""Random numbers: the distributions, the stream and its independence of the sync points."""

import math

import pytest
import torch
from cpu_reference import check_errors
from elementwise import check_cases

import torch_go_xla

N = 40_000
XLA = "xla"
ROWS = """
    uniform normal_functional normal_ normal bernoulli exponential geometric cauchy log_normal random native_dropout
    randperm multinomial poisson binomial _standard_gamma _sample_dirichlet rrelu_with_noise native_dropout_backward
""".split()


@pytest.fixture(autouse=True)
def seeded():
    """Every test draws the same numbers each time."""
    torch.manual_seed(2024)


def empty(dtype=torch.float32):
    return torch.empty(N, dtype=dtype, device=XLA)


def full(value, dtype=torch.float32):
    return torch.full((N,), value, dtype=dtype, device=XLA)


def check_moments(x, mean, variance):
    """Compare with the moments: six standard errors of the mean, six of the variance by the fourth moment."""
    x = x.detach().cpu().double()
    assert abs(x.mean().item() - mean) < 6 * math.sqrt(variance / x.numel()) + 1e-12
    centred = (x - mean) ** 2
    error = 6 * (centred.std() / math.sqrt(x.numel())).item()
    assert abs(centred.mean().item() - variance) < error + 1e-12


def check_continuous(x, cdf):
    """Kolmogorov and Smirnov's test, at a level of one in a hundred thousand."""
    x = x.detach().cpu().double().sort()[0]
    n = x.numel()
    probability = cdf(x)
    above = (torch.arange(1, n + 1) / n - probability).max().item()
    below = (probability - torch.arange(n) / n).max().item()
    assert max(above, below) < math.sqrt(-math.log(0.5e-5) / (2 * n))


def normal_cdf(mean, std):
    return lambda x: torch.special.ndtr((x - mean) / std)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_uniform(dtype):
    check_continuous(torch.rand(N, dtype=dtype, device=XLA), lambda x: x)
    x = empty(dtype).uniform_(-2, 6)
    check_continuous(x, lambda x: (x + 2) / 8)
    assert x.min().item() >= -2
    assert x.max().item() < 6


@pytest.mark.parametrize(("dtype", "bits"), [(torch.float16, 11), (torch.bfloat16, 8)], ids=str)
def test_uniform_half(dtype, bits):
    x = torch.rand(N, dtype=dtype, device=XLA).cpu().double()
    steps = x * 2**bits
    assert torch.equal(steps, steps.floor())
    assert x.max() < 1
    check_moments(x, 0.5 - 2.0 ** (-bits - 1), 1 / 12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_normal(dtype):
    check_continuous(torch.randn(N, dtype=dtype, device=XLA), normal_cdf(0, 1))
    check_continuous(empty(dtype).normal_(3, 2), normal_cdf(3, 2))
    check_continuous(torch.normal(full(1.0, dtype), 2.0), normal_cdf(1, 2))
    check_continuous(torch.normal(1.0, full(2.0, dtype)), normal_cdf(1, 2))
    check_continuous(torch.normal(full(1.0, dtype), full(2.0, dtype)), normal_cdf(1, 2))


def test_normal_of_other_types():
    check_moments(torch.randn(N, dtype=torch.bfloat16, device=XLA), 0, 1)
    check_moments(torch.randn(N, dtype=torch.float16, device=XLA), 0, 1)
    z = torch.randn(N, dtype=torch.complex64, device=XLA).cpu()
    check_continuous(z.real, normal_cdf(0, math.sqrt(0.5)))
    check_continuous(z.imag, normal_cdf(0, math.sqrt(0.5)))
    assert abs(torch.corrcoef(torch.stack([z.real, z.imag]))[0, 1]) < 6 / math.sqrt(N)


def test_continuous_fills():
    check_continuous(empty().exponential_(2), lambda x: 1 - torch.exp(-2 * x))
    check_continuous(empty().cauchy_(1, 2), lambda x: 0.5 + torch.atan((x - 1) / 2) / math.pi)
    check_continuous(empty().log_normal_(0, 0.5), lambda x: torch.special.ndtr(x.log() / 0.5))
    assert empty().exponential_().min().item() > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bfloat16], ids=str)
def test_geometric_and_bernoulli(dtype):
    x = empty(dtype).geometric_(0.3)
    assert x.min().item() >= 1
    check_moments(x, 1 / 0.3, 0.7 / 0.09)
    check_moments(empty(dtype).bernoulli_(0.3), 0.3, 0.21)
    check_moments(empty(dtype).bernoulli_(full(0.3)), 0.3, 0.21)
    assert empty(dtype).bernoulli_(1.0).min().item() == 1
    assert empty(dtype).bernoulli_(0.0).max().item() == 0


def test_bernoulli_of_probabilities():
    p = torch.rand(N, device=XLA)
    x = torch.bernoulli(p)
    assert abs((x - p).mean().item()) < 6 * math.sqrt(1 / 6 / N)
    assert torch.bernoulli(torch.tensor([0.0, 1.0], device=XLA)).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [(3, 13, torch.int64), (-5, 5, torch.int8), (0, 256, torch.uint8), (0, 2, torch.bool), (0, 2**40, torch.int64),
     (-(2**62), 2**62, torch.int64), (0, 100, torch.float32)],
    ids=str,
)  # fmt: skip
def test_integers(low, high, dtype):
    x = torch.randint(low, high, (N,), dtype=dtype, device=XLA).cpu()
    assert x.double().min() >= low
    assert x.double().max() < high
    if high - low <= 256:
        counts = torch.bincount((x.long() - low), minlength=high - low).double()
        expected = N / (high - low)
        chi = ((counts - expected) ** 2 / expected).sum().item()
        assert chi < (high - low) + 6 * math.sqrt(2 * (high - low)) + 10
    else:
        check_continuous((x.double() - low) / (high - low), lambda x: x)


def test_integers_without_bounds():
    check_continuous(empty(torch.int64).random_().double() / 2.0**63, lambda x: x)
    check_continuous(empty(torch.int64).random_(-(2**63), None).double() / 2.0**64 + 0.5, lambda x: x)
    check_moments(empty(torch.uint8).random_(), 127.5, (256**2 - 1) / 12)
    check_moments(empty(torch.bool).random_(), 0.5, 0.25)
    assert empty(torch.int32).random_().min().item() >= 0
    half = empty(torch.float16).random_().cpu()
    assert half.max() <= 2048
    assert torch.equal(half, half.floor())


def test_permutation():
    for n in (0, 1, 1000):
        assert sorted(torch.randperm(n, device=XLA).tolist()) == list(range(n))
    first = torch.stack([torch.randperm(5, device=XLA) for _ in range(400)]).cpu()
    counts = torch.stack([(first == k).sum(0) for k in range(5)]).double()
    assert ((counts - 80).abs() < 6 * math.sqrt(400 * 0.2 * 0.8)).all()
    assert torch.randperm(5, dtype=torch.float32, device=XLA).dtype == torch.float32


def test_multinomial():
    weights = torch.tensor([1.0, 2.0, 0.0, 7.0], device=XLA)
    for replacement in (True, False):
        shape = (N,) if replacement else (N, 1)
        drawn = torch.multinomial(
            weights if replacement else weights.expand(N, 4), N if replacement else 1, replacement
        )
        assert drawn.shape == shape
        share = torch.bincount(drawn.cpu().flatten(), minlength=4).double() / N
        assert ((share - torch.tensor([0.1, 0.2, 0.0, 0.7])).abs() < 6 * math.sqrt(0.21 / N)).all()
        assert share[2] == 0
    all_three = torch.multinomial(weights.expand(50, 4), 3).sort(1)[0]
    assert (all_three.cpu() == torch.tensor([0, 1, 3])).all()


@pytest.mark.parametrize("rate", [0.1, 3.0, 9.9, 10.0, 50.0])
def test_poisson(rate):
    x = torch.poisson(full(rate))
    check_moments(x, rate, rate)
    assert torch.equal(x, x.floor())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_gamma(dtype):
    for alpha in (0.2, 1.0, 5.0, 100.0):
        a = torch.tensor(alpha, dtype=torch.float64)
        check_continuous(torch._standard_gamma(full(alpha, dtype)), lambda x, a=a: torch.igamma(a.expand_as(x), x))
    shares = torch._sample_dirichlet(torch.tensor([1.0, 2.0, 3.0], dtype=dtype, device=XLA).expand(N, 3)).cpu()
    torch.testing.assert_close(shares.sum(-1), torch.ones(N, dtype=dtype))
    check_moments(shares[:, 0], 1 / 6, 5 / 252)
    check_moments(shares[:, 2], 1 / 2, 9 / 252)


@pytest.mark.parametrize(("count", "p"), [(5, 0.2), (100, 0.3), (100, 0.7), (30, 0.5), (1000, 0.001)])
def test_binomial(count, p):
    x = torch.binomial(full(float(count)), full(p))
    check_moments(x, count * p, count * p * (1 - p))
    assert x.min().item() >= 0
    assert x.max().item() <= count


def test_edges_of_samplers():
    x = torch.binomial(torch.tensor([5.0, 5.0, 0.0], device=XLA), torch.tensor([0.0, 1.0, 0.5], device=XLA))
    assert x.tolist() == [0, 5, 0]
    assert torch.poisson(torch.zeros(3, device=XLA)).tolist() == [0, 0, 0]
    assert (torch._standard_gamma(torch.zeros(3, device=XLA)) <= 2e-38).all().item()
    for draw in (torch.poisson, torch._standard_gamma, torch.bernoulli):
        assert draw(torch.empty(0, 3, device=XLA)).shape == (0, 3)
    assert torch.rand(0, device=XLA).shape == (0,)


def test_dropout():
    x = torch.ones(N, device=XLA, requires_grad=True)
    y = torch.nn.functional.dropout(x, 0.3)
    check_moments(y, 1, 0.3 / 0.7)
    y.sum().backward()
    assert torch.equal(x.grad.cpu(), y.detach().cpu())
    assert set(y.detach().cpu().unique().tolist()) == {0.0, torch.tensor(1 / 0.7).item()}
    assert torch.equal(torch.nn.functional.dropout(x, 0.3, training=False), x)
    assert torch.nn.functional.dropout(x, 1.0).abs().max().item() == 0
    channels = torch.nn.functional.dropout2d(torch.ones(50, 20, 3, 3, device=XLA), 0.5).cpu()
    assert torch.equal(channels.amax((2, 3)), channels.amin((2, 3)))
    check_moments(torch.nn.functional.alpha_dropout(torch.randn(N, device=XLA), 0.3, True), 0, 1)
    values, mask = torch.native_dropout(torch.full((4,), float("nan"), device=XLA), 0.5, True)
    assert values.isnan().all().item()
    assert mask.dtype == torch.bool


def draw_all(sync):
    torch.manual_seed(7)
    made = []
    for draw in (
        lambda: torch.randn(50, device=XLA),
        lambda: torch.rand(50, device=XLA),
        lambda: torch.randint(0, 100, (50,), device=XLA),
        lambda: torch.nn.functional.dropout(torch.ones(50, device=XLA), 0.5),
        lambda: torch._standard_gamma(torch.ones(50, device=XLA)),
        lambda: torch.randperm(50, device=XLA),
        lambda: torch.randn(50, device=XLA),
    ):
        made.append(draw())
        if sync:
            torch_go_xla.sync()
    return [x.cpu() for x in made]


def test_stream_does_not_depend_on_syncs():
    together, apart = draw_all(False), draw_all(True)
    for a, b in zip(together, apart, strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(together[0], together[-1])


def test_draws_do_not_overlap():
    x = torch.stack([torch.rand(4096, device=XLA, dtype=torch.float64) for _ in range(8)]).cpu()
    assert x.unique().numel() == x.numel()
    correlation = torch.corrcoef(x) - torch.eye(8)
    assert correlation.abs().max() < 5 / math.sqrt(4096)
    torch.manual_seed(2025)
    other = torch.rand(4096, device=XLA, dtype=torch.float64).cpu()
    assert not set(other.tolist()) & set(x[0].tolist())


def test_state():
    torch.rand(3, device=XLA)
    state = torch.xla.get_rng_state() if hasattr(torch, "xla") else torch_go_xla.core.xla_model.get_rng_state()
    a = torch.rand(5, device=XLA).cpu()
    if hasattr(torch, "xla"):
        torch.xla.set_rng_state(state)
    else:
        torch_go_xla.core.xla_model.set_rng_state(state)
    assert torch.equal(a, torch.rand(5, device=XLA).cpu())


def test_refusals():
    def x(dtype=None):
        return torch.ones(3, dtype=dtype)

    check_cases([
        lambda: x().bernoulli_(1.5),
        lambda: x().uniform_(2, 1),
        lambda: x().uniform_(0, float("inf")),
        lambda: x(torch.half).uniform_(0, 1e6),
        lambda: x().normal_(0, -1),
        lambda: x().exponential_(0),
        lambda: x(torch.long).exponential_(),
        lambda: x().geometric_(0),
        lambda: x().geometric_(1.5),
        lambda: x().cauchy_(0, 0),
        lambda: x(torch.long).cauchy_(),
        lambda: x().log_normal_(0, 0),
        lambda: x().random_(5, 5),
        lambda: x().random_(-1),
        lambda: x(torch.uint8).random_(0, 300),
        lambda: x(torch.uint8).random_(-5, 30),
        lambda: x(torch.int8).random_(500),
        lambda: x(torch.bool).random_(0, 3),
        lambda: x(torch.half).random_(0, 100000),
        lambda: x(torch.complex64).random_(),
        lambda: x(torch.long).normal_(),
        lambda: torch.normal(x(), torch.ones(2)),
        lambda: torch.normal(1.0, x(torch.complex64)),
        lambda: torch.normal(x(torch.long), 1.0),
        lambda: torch.bernoulli(x(torch.long)),
        lambda: x().bernoulli_(torch.ones(2)),
        lambda: x().bernoulli_(torch.ones(2, 3)),
        lambda: torch.multinomial(x(), 4),
        lambda: torch.multinomial(x(), 0, True),
        lambda: torch.multinomial(torch.ones(2, 2, 2), 1),
        lambda: torch.multinomial(x(torch.long), 1),
        lambda: torch.randperm(-1),
        lambda: torch.randperm(300, dtype=torch.uint8),
        lambda: torch.randperm(3, dtype=torch.bool),
        lambda: torch.randperm(5000, dtype=torch.half),
        lambda: torch.binomial(x(), x(torch.double)),
        lambda: torch.binomial(x(torch.long), x()),
        lambda: torch.poisson(x(torch.long)),
        lambda: torch.native_dropout(x(torch.long), 0.5, True),
        lambda: torch.native_dropout(x(), 1.5, True),
    ])  # fmt: skip


@pytest.mark.parametrize("name", ["cauchy", "exponential", "geometric", "log_normal", "normal", "uniform"])
def test_errors(name):
    check_errors(name)
