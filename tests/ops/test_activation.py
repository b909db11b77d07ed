"""Activations and their gradients equal torch on the CPU."""

import pytest
import torch
import torch.nn.functional as F
from cpu_reference import Batch, check_errors
from elementwise import FLOATS, check_cases, check_samples

OPS = """
    gelu silu relu relu6 hardtanh hardswish hardsigmoid leaky_relu elu celu selu softplus mish logsigmoid glu prelu
    hardshrink softshrink tanhshrink softsign threshold
""".split()
NAMES = [f"nn.functional.{op}" for op in OPS] + ["sigmoid", "tanh", "logit"]
ROWS = (
    [f"{op}{suffix}" for op in OPS for suffix in ("", "_backward")]
    + """
    log_sigmoid_forward log_sigmoid_backward _prelu_kernel _prelu_kernel_backward glu_jvp glu_backward_jvp logit
    logit_backward tanh_backward sigmoid_backward rrelu_with_noise rrelu_with_noise_backward
""".split()
)

# A gradient that torch makes of several ops rounds to the half type in between on the CPU.
CHAINS = {torch.bfloat16: (3.2e-2, 1.6e-2), torch.float16: (4e-3, 2e-3)}


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.complex64], ids=str)
def test_samples(dtype):
    check_samples(NAMES, dtype, most=2, tolerance=CHAINS)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_gradients(dtype):
    check_samples(NAMES, dtype, most=2 if dtype == torch.float32 else 1, backward=True, tolerance=CHAINS)


@pytest.mark.parametrize("name", NAMES)
def test_errors(name):
    check_errors(name)


def test_kinks():
    """The value and the slope at the ends of linear pieces, at infinities and at NaN."""
    batch = Batch()
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([-inf, -30.0, -3.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 3.0, 6.0, 30.0, inf, nan])
    for op in OPS:
        function = getattr(F, op)
        args = {"prelu": (torch.tensor([0.25]),), "threshold": (0.5, -1.0)}.get(op, ())
        at = x[2:-2] if op in ("gelu", "softsign", "glu") else x
        batch.add(op, function, at.clone().requires_grad_(), *args, backward=op != "softsign")
    for eps in (None, 0.1, 0.6):
        probability = torch.tensor([-1.0, 0.0, 0.05, 0.1, 0.5, 0.9, 0.95, 1.0, 2.0, nan], requires_grad=True)
        batch.add(f"logit {eps}", torch.logit, probability, eps, backward=True)
    batch.add("softplus beta", F.softplus, x.clone().requires_grad_(), 2.0, 1.0, backward=True)
    batch.add("elu alpha", F.elu, x.clone().requires_grad_(), 0.5, backward=True)
    batch.add("gelu tanh", lambda x: F.gelu(x, approximate="tanh"), x[1:-2].clone().requires_grad_(), backward=True)
    batch.check()


def test_in_place():
    def of(function, *args):
        return lambda: function(torch.tensor([1.0, -2.0, 3.0, -0.5]), *args, inplace=True)

    names = "relu relu6 hardtanh hardswish hardsigmoid leaky_relu elu celu selu silu mish".split()
    check_cases([of(getattr(F, name)) for name in names] + [of(F.threshold, 0.5, -1)])


def test_refusals():
    x = lambda dtype=None: torch.ones(4, dtype=dtype)  # noqa: E731
    check_cases([
        lambda: F.gelu(x(torch.long)),
        lambda: F.gelu(x(), approximate="x"),
        lambda: F.relu(x(torch.bool)),
        lambda: F.hardtanh(x(torch.bool)),
        lambda: F.hardtanh(x(torch.uint8)),
        lambda: F.hardtanh(x(torch.int8), -300, 300),
        lambda: F.relu(x(torch.complex64)),
        lambda: F.softshrink(x(), -1),
        lambda: F.glu(torch.tensor(1.0)),
        lambda: F.glu(x()[:3]),
        lambda: F.celu(x(torch.long)),
        lambda: F.threshold(x(torch.long), 1, 5.7),
        lambda: torch.ops.aten.elu_backward(x(), -1.0, 1, 1, True, x()),
        lambda: torch.ops.aten.leaky_relu_backward(x(), x(), -1.0, True),
    ])  # fmt: skip


def test_leaky_slopes_at_random():
    x = torch.linspace(-2, 2, 50)
    batch = Batch()
    batch.add("rrelu in evaluation", lambda x: F.rrelu(x, 0.1, 0.5, False), x.clone().requires_grad_(), backward=True)
    batch.check()
    there = x.to("xla").requires_grad_()
    y = F.rrelu(there, 0.1, 0.5, True)
    y.sum().backward()
    y, slope = y.detach().cpu(), there.grad.cpu()
    torch.testing.assert_close(y, x * slope)
    assert (slope[x > 0] == 1).all()
    below = slope[x <= 0]
    assert ((below >= 0.1) & (below < 0.5)).all()
    assert below.unique().numel() == below.numel()
