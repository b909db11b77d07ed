"""Convolutions equal torch on the CPU."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from cpu_reference import Batch, check_errors, check_opinfo
from rounded import check_halves

TYPES = (torch.float32, torch.float64, torch.int64)

OPS = [f"nn.functional.conv{kind}{n}d" for kind in ("", "_transpose") for n in (1, 2, 3)]

ROWS = "convolution convolution_backward conv_tbc".split()

# Sums of up to several hundred products of numbers up to 9; torch's own choice of algorithm moves as much.
SUMS = {torch.float32: (1e-5, 1e-4)}

FUNCTIONS = {
    (n, transposed): getattr(F, f"conv{'_transpose' if transposed else ''}{n}d")
    for n in (1, 2, 3)
    for transposed in (False, True)
}


@pytest.mark.parametrize("name", OPS)
def test_opinfo(name):
    check_opinfo(name, TYPES, most=6, tolerance=SUMS)


@pytest.mark.parametrize("name", OPS)
def test_halves(name):
    # rounded before and after the bias is added
    check_halves(name, most=3, tolerance={torch.bfloat16: (1.6e-2, 3e-2), torch.float16: (2e-3, 4e-3)})


@pytest.mark.parametrize("name", OPS)
def test_errors(name):
    check_errors(name)


def weight_shape(n, transposed, groups):
    return (6, 8 // groups, *(3, 2, 3)[:n]) if transposed else (8, 6 // groups, *(3, 2, 3)[:n])


@pytest.mark.parametrize(("n", "transposed"), FUNCTIONS)
def test_arguments(n, transposed):
    """Every combination of stride, padding, dilation and groups gives torch's values and gradients."""
    torch.manual_seed(0)
    batch = Batch(SUMS)
    choices = itertools.product((1, 2), (0, 1), (1, 2), (1, 2)) if n < 3 else ((1, 1, 2, 1), (2, 0, 1, 2))
    for stride, padding, dilation, groups in choices:
        options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        if transposed and (stride > 1 or dilation > 1):
            options["output_padding"] = 1
        x = torch.randn(2, 6, *(7, 6, 7)[:n], requires_grad=True)
        w = torch.randn(weight_shape(n, transposed, groups), requires_grad=True)
        b = torch.randn(8, requires_grad=True)
        call = FUNCTIONS[n, transposed]
        batch.add(f"{options}", lambda x, w, b, f=call, o=options: f(x, w, b, **o), x, w, b, backward=True)
    batch.check()


def test_depthwise():
    batch = Batch(SUMS)
    x, w = torch.randn(2, 6, 8, 8, requires_grad=True), torch.randn(12, 1, 3, 3, requires_grad=True)
    batch.add("multiplier 2", lambda x, w: F.conv2d(x, w, stride=2, padding=1, groups=6), x, w, backward=True)
    w = torch.randn(6, 2, 3, 3, requires_grad=True)
    batch.add("transposed", lambda x, w: F.conv_transpose2d(x, w, stride=2, groups=6), x, w, backward=True)
    batch.check()


def test_channels_last():
    batch = Batch(SUMS)
    x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last).requires_grad_()
    w = torch.randn(4, 3, 3, 3).to(memory_format=torch.channels_last).requires_grad_()
    batch.add("channels last", F.conv2d, x, w, backward=True)
    batch.check()


def test_masked_gradients():
    """Only the gradients that are asked for are there."""
    batch = Batch(SUMS)
    for wanted in itertools.product((False, True), repeat=3):
        if not any(wanted):
            continue
        args = [torch.randn(s).requires_grad_(r) for s, r in zip([(2, 3, 6), (4, 3, 3), (4,)], wanted, strict=True)]
        batch.add(f"{wanted}", F.conv1d, *args, backward=True)
    batch.check()


def test_empty():
    batch = Batch()
    w = torch.randn(4, 3, 3, 3, requires_grad=True)
    batch.add("no images", F.conv2d, torch.randn(0, 3, 6, 6, requires_grad=True), w, backward=True)
    batch.add("no channels", F.conv2d, torch.randn(2, 0, 6, 6), torch.randn(4, 0, 3, 3))
    batch.check()


def test_double_backward():
    def second(x, w):
        y = F.conv2d(x, w, padding=1)
        (g,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
        return g.square().sum()

    batch = Batch({torch.float32: (1e-4, 1e-2)})
    x, w = torch.randn(1, 2, 5, 5, requires_grad=True), torch.randn(3, 2, 3, 3, requires_grad=True)
    batch.add("second order", second, x, w, backward=True)
    batch.check()


def test_time_batch_channels():
    batch = Batch(SUMS)
    x, w, b = torch.randn(5, 2, 3), torch.randn(3, 3, 4), torch.randn(4)
    batch.add("conv_tbc", lambda *a: torch.conv_tbc(*a, 1), x, w, b)
    batch.check()
