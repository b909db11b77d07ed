"""Losses and their gradients equal torch on the CPU."""

import math

import pytest
import torch
import torch.nn.functional as F
from cpu_reference import Batch, check_errors, check_opinfo

import torch_go_xla.debug.metrics as metrics

TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)

OPS = """
    nn.functional.cross_entropy nn.functional.nll_loss nn.functional.mse_loss nn.functional.smooth_l1_loss
    nn.functional.huber_loss nn.functional.l1_loss nn.functional.binary_cross_entropy nn.functional.soft_margin_loss
    nn.functional.binary_cross_entropy_with_logits nn.functional.multi_margin_loss nn.functional.multilabel_margin_loss
    nn.functional.multilabel_soft_margin_loss nn.functional.kl_div nn.functional.poisson_nll_loss
    nn.functional.gaussian_nll_loss nn.functional.hinge_embedding_loss nn.functional.margin_ranking_loss
    nn.functional.cosine_embedding_loss nn.functional.triplet_margin_loss
""".split()

ROWS = """
    mse_loss mse_loss_backward smooth_l1_loss smooth_l1_loss_backward huber_loss huber_loss_backward
    binary_cross_entropy binary_cross_entropy_backward binary_cross_entropy_with_logits soft_margin_loss
    soft_margin_loss_backward nll_loss_forward nll_loss_backward nll_loss2d_forward nll_loss2d_backward
    multi_margin_loss multi_margin_loss_backward multilabel_margin_loss_forward multilabel_margin_loss_backward
    _ctc_loss _ctc_loss_backward
""".split()

# Torch rounds to the half type after every step of a composite loss, here only the result is rounded.
HALF = {torch.bfloat16: (5e-2, 1e-1), torch.float16: (5e-3, 1e-2)}


@pytest.mark.parametrize("name", OPS)
def test_opinfo(name):
    # Torch's soft margin exponentiates in float16 itself and overflows.
    types = TYPES[:-1] if name == "nn.functional.soft_margin_loss" else TYPES
    check_opinfo(name, types, most=6, tolerance=HALF)


@pytest.mark.parametrize("name", OPS)
def test_errors(name):
    # A device cannot look at values before it answers: targets and probabilities out of range do not raise.
    check_errors(name, skip=lambda s: "between 0 and 1" in str(s))


def test_ignored_targets():
    batch = Batch()
    torch.manual_seed(0)
    x = torch.randn(4, 3, requires_grad=True)
    weight = torch.tensor([0.5, 2.0, 0.0])
    for label, target in (
        ("some", torch.tensor([0, -100, 2, 1])),
        ("all", torch.full((4,), -100)),
        ("another class", torch.tensor([1, 1, 2, 1])),
    ):
        for w in (None, weight):
            for reduction in ("none", "mean", "sum"):
                batch.add(
                    f"{label} {reduction} {w}",
                    lambda x, t, w, r=reduction: F.cross_entropy(x, t, w, reduction=r),
                    x,
                    target,
                    w,
                    backward=True,
                )
    batch.add(
        "ignored class 1", lambda x, t: F.nll_loss(x, t, ignore_index=1), x, torch.tensor([0, 1, 2, 1]), backward=True
    )
    infinite = torch.full((2, 3), -math.inf, requires_grad=True)
    batch.add("infinite, ignored", lambda x, t: F.nll_loss(x, t), infinite, torch.tensor([-100, 0]), backward=True)
    batch.check()


def test_images():
    batch = Batch()
    torch.manual_seed(0)
    x = torch.randn(2, 3, 4, 5, requires_grad=True)
    target = torch.randint(0, 3, (2, 4, 5))
    target[0, 0] = -100
    for reduction in ("none", "mean", "sum"):
        for w in (None, torch.rand(3)):
            batch.add(
                f"{reduction} {w is None}",
                lambda x, t, w, r=reduction: F.cross_entropy(x, t, w, reduction=r),
                x,
                target,
                w,
                backward=True,
            )
    three = torch.randn(2, 3, 2, 2, 2, requires_grad=True)
    batch.add("volumes", F.cross_entropy, three, torch.randint(0, 3, (2, 2, 2, 2)), backward=True)
    batch.add("smoothed", lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1), x, target, backward=True)
    batch.check()


def test_one_sample():
    batch = Batch()
    x = torch.randn(5, requires_grad=True)
    for target in (torch.tensor(2), torch.tensor(-100)):
        for reduction in ("none", "mean", "sum"):
            batch.add(f"{reduction}", lambda x, t, r=reduction: F.nll_loss(x, t, reduction=r), x, target, backward=True)
    batch.add("multi margin", lambda x, t: F.multi_margin_loss(x, t, p=2), x, torch.tensor(1), backward=True)
    batch.add("multilabel", F.multilabel_margin_loss, x, torch.tensor([3, 1, -1, 2, 0]), backward=True)
    batch.check()


def test_broadcast():
    batch = Batch()
    torch.manual_seed(0)
    x, y = torch.rand(3, 4, requires_grad=True), torch.rand(4, requires_grad=True)
    for f in (F.mse_loss, F.smooth_l1_loss, F.huber_loss):
        for reduction in ("none", "mean", "sum"):
            batch.add(
                f"{f.__name__} {reduction}", lambda x, y, f=f, r=reduction: f(x, y, reduction=r), x, y, backward=True
            )
    batch.add("soft margin", F.soft_margin_loss, x, y.detach().sign(), backward=True)
    batch.add(
        "weights", lambda x, w: F.binary_cross_entropy_with_logits(x, (x > 0.5).float(), w, pos_weight=w), x, y.detach()
    )
    batch.check()


def test_extremes():
    batch = Batch()
    x = torch.tensor([0.0, 1.0, 0.5, 1e-30], requires_grad=True)
    y = torch.tensor([0.0, 1.0, 1.0, 1.0])
    batch.add("binary cross entropy", lambda x, y: F.binary_cross_entropy(x, y, reduction="none"), x, y, backward=True)
    batch.add("of the opposite", lambda x, y: F.binary_cross_entropy(x, 1 - y, reduction="none"), x, y, backward=True)
    big = torch.tensor([-200.0, 200.0, 0.0, 50.0], requires_grad=True)
    batch.add("logits", lambda x, y: F.binary_cross_entropy_with_logits(x, y, reduction="none"), big, y, backward=True)
    batch.add("empty mean", F.mse_loss, torch.zeros(0), torch.zeros(0))
    batch.add("empty batch", F.cross_entropy, torch.zeros(0, 3), torch.zeros(0, dtype=torch.long))
    for beta in (0.0, 0.5):
        batch.add(
            f"smooth l1 {beta}", lambda x, b=beta: F.smooth_l1_loss(x, torch.zeros_like(x), beta=b), big, backward=True
        )
    batch.check()


def test_second_derivatives():
    def twice(f):
        def g(x):
            (grad,) = torch.autograd.grad(f(x), x, create_graph=True)
            return grad.square().sum()

        return g

    batch = Batch({torch.float32: (1e-4, 1e-4)})
    torch.manual_seed(0)
    x, y = torch.randn(3, 4, requires_grad=True), torch.rand(3, 4)
    for f in (F.mse_loss, F.smooth_l1_loss, F.huber_loss, F.binary_cross_entropy_with_logits, F.soft_margin_loss):
        batch.add(f.__name__, lambda x, y, f=f: twice(lambda x: f(x, y))(x), x, y, backward=True)
    batch.check()


def test_messages():
    x = torch.zeros(4, 3, device="xla")
    t = torch.zeros(4, dtype=torch.long, device="xla")
    cases = [
        (RuntimeError, "expected target dtype to be Long or Byte, but got Int", lambda: F.nll_loss(x, t.int())),
        (RuntimeError, "weight tensor should be defined either for all 3 classes", lambda: F.nll_loss(x, t, x[0, :2])),
        (NotImplementedError, '"mse_cpu" not implemented for', lambda: F.mse_loss(t, t)),
        (RuntimeError, "huber_loss does not support non-positive", lambda: F.huber_loss(x, x, delta=0.0)),
        (RuntimeError, "Found dtype Double but expected Float", lambda: F.binary_cross_entropy(x, x.double())),
    ]
    for kind, text, call in cases:
        with pytest.raises(kind, match=text):
            call()


def ctc(x, targets, inputs, lengths, **options):
    loss = F.ctc_loss(x.log_softmax(2), targets, inputs, lengths, **options)
    return loss, *torch.autograd.grad(loss.sum(), x)


def test_ctc():
    """Targets as rows and in one piece, empty ones, some too long for their input, lengths in tensors."""
    torch.manual_seed(0)
    x = torch.randn(9, 4, 5, dtype=torch.float64, requires_grad=True)
    rows = torch.tensor([[1, 1, 2, 3], [4, -1, -1, -1], [2, 3, 2, 3], [1, 2, 0, 0]])
    inputs, lengths = (9, 7, 3, 0), (4, 1, 4, 0)
    piece = torch.cat([row[:n] for row, n in zip(rows, lengths, strict=True)])
    for reduction in ("none", "mean", "sum"):
        for targets in (rows, piece):
            for zero in (False, True):
                options = {"reduction": reduction, "zero_infinity": zero}
                want = ctc(x, targets, inputs, lengths, **options)
                y = x.detach().to("xla").requires_grad_()
                got = ctc(y, targets.to("xla"), inputs, lengths, **options)
                torch.testing.assert_close([t.cpu() for t in got], list(want), equal_nan=True)
    tensors = (torch.tensor(inputs, device="xla"), torch.tensor(lengths, device="xla"))
    got = ctc(y, rows.to("xla"), *tensors, reduction="none")
    want = ctc(x, rows, inputs, lengths, reduction="none")
    torch.testing.assert_close([t.cpu() for t in got], list(want), equal_nan=True)


def test_ctc_lengths_are_data():
    x = torch.randn(6, 2, 4).to("xla").requires_grad_()
    targets = torch.tensor([[1, 2, 3], [3, 2, 1]]).to("xla")
    compiled = []
    for inputs, lengths in (((6, 6), (3, 2)), ((6, 5), (3, 1)), ((4, 6), (1, 3))):
        ctc(x, targets, inputs, lengths)[1].cpu()
        compiled.append(metrics.counter_value("UncachedCompile"))
    assert compiled[0] == compiled[1] == compiled[2]
