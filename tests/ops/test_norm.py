"""Softmax and the normalizations equal torch on the CPU, their gradients and running statistics too."""

import pytest
import torch
import torch.nn.functional as F
from cpu_reference import Batch, check_errors, check_opinfo

TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)

OPS = """
    softmax log_softmax _softmax_backward_data nn.functional.layer_norm nn.functional.group_norm
    nn.functional.batch_norm nn.functional.instance_norm nn.functional.rms_norm native_layer_norm native_batch_norm
    nn.functional.softmin masked.softmax masked.log_softmax
""".split()

ROWS = """
    _softmax _log_softmax _softmax_backward_data _log_softmax_backward_data _safe_softmax _masked_softmax
    _masked_softmax_backward logsumexp native_layer_norm native_layer_norm_backward native_group_norm
    native_group_norm_backward native_batch_norm native_batch_norm_backward _native_batch_norm_legit
    _native_batch_norm_legit_functional _native_batch_norm_legit_no_training _batch_norm_with_update
    _batch_norm_with_update_functional _batch_norm_no_update batch_norm_backward _fused_rms_norm
    _fused_rms_norm_backward _weight_norm_interface _weight_norm_interface_backward
""".split()

aten = torch.ops.aten

# Torch keeps mean and 1/deviation in the half type and computes some of the gradient in it; here the
# gradient is computed in float32. The two differ by several roundings of the half type.
HALF = {torch.bfloat16: (3e-2, 3e-2), torch.float16: (5e-3, 5e-3)}


def single(dtype, sample):
    """Tell whether a sample normalizes over one element: torch's gradient is rounding noise then, here it is 0."""
    shape = sample.args[0] if sample.args and isinstance(sample.args[0], (tuple, list, torch.Size)) else ()
    return list(shape) == [1]


@pytest.mark.parametrize("name", OPS)
def test_opinfo(name):
    check_opinfo(name, TYPES, tolerance=HALF, skip=single if "layer_norm" in name else None)


@pytest.mark.parametrize("name", OPS)
def test_errors(name):
    check_errors(name)


def test_softmax_of_infinities():
    batch = Batch()
    inf = float("inf")
    x = torch.tensor([[0.0, -inf, 1.0], [-inf, -inf, -inf], [inf, 1.0, 2.0], [200.0, -200.0, 0.0]])
    for f in (torch.softmax, torch.log_softmax, aten._safe_softmax):
        batch.add(f"{f}", f, x, 1)
        batch.add(f"{f} half", f, x.to(torch.float16), 1)
    batch.add("0 dimensions", torch.softmax, torch.tensor(3.0), 0)
    batch.add("empty", torch.softmax, torch.zeros(0, 3), 1)
    batch.add("float of half", lambda x: F.softmax(x, 1, dtype=torch.float32), x.half())
    batch.add("safe, float of half", lambda x: aten._safe_softmax(x, 1, torch.float32), x.half())
    batch.check()


def test_masked_softmax():
    batch = Batch()
    torch.manual_seed(0)
    x = torch.randn(2, 3, 4, 4)
    full, square, keys = torch.rand(2, 3, 4, 4) > 0.5, torch.rand(4, 4) > 0.6, torch.rand(2, 4) > 0.6
    for label, mask, dim, kind in (
        ("default", full, None, 2),
        ("source", square, None, 0),
        ("keys", keys, None, 1),
        ("along 1", full, 1, 2),
    ):
        batch.add(
            label,
            lambda x, m, d=dim, k=kind: aten._masked_softmax(x, m, d, k),
            x.clone().requires_grad_(label != "along 1"),
            mask,
            backward=label in ("default",),
        )
    batch.check()


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_updates_running_statistics(training, affine):
    results = []
    for device in ("cpu", "xla"):
        torch.manual_seed(0)
        m = torch.nn.BatchNorm2d(3, affine=affine, momentum=0.3)
        m.running_mean.normal_()
        m.running_var.uniform_(0.5, 2)
        m.train(training).to(device)
        x = torch.randn(4, 3, 5, 2).to(device).requires_grad_()
        for _ in range(2):
            y = m(x)
        (y * torch.arange(y.numel(), device=device).reshape(y.shape)).sum().backward()
        results.append(
            [y, x.grad, m.running_mean, m.running_var, m.num_batches_tracked, *(p.grad for p in m.parameters())]
        )
    for want, got in zip(*results, strict=True):
        torch.testing.assert_close(got.cpu(), want, rtol=1e-5, atol=1e-4)


def test_batch_norm_forms():
    batch = Batch()
    torch.manual_seed(0)
    x, w, b = torch.randn(4, 3, 5), torch.rand(3), torch.randn(3)
    mean, var = torch.randn(3), torch.rand(3) + 0.5
    batch.add(
        "functional", lambda *a: aten._native_batch_norm_legit_functional(*a, True, 0.1, 1e-5), x, w, b, mean, var
    )
    batch.add(
        "functional, evaluation",
        lambda *a: aten._native_batch_norm_legit_functional(*a, False, 0.1, 1e-5),
        x,
        w,
        b,
        mean,
        var,
    )
    batch.add("no statistics", lambda *a: aten._native_batch_norm_legit.no_stats(*a, True, 0.1, 1e-5), x, w, b)
    batch.add("no training", lambda *a: aten._native_batch_norm_legit_no_training(*a, 0.1, 1e-5), x, w, None, mean, var)
    batch.add("with update", lambda *a: aten._batch_norm_with_update_functional(*a, 0.1, 1e-5), x, w, b, mean, var)
    batch.add("no update", lambda *a: aten._batch_norm_no_update(*a, 0.1, 1e-5), x, w, b, mean, var)

    def update(x, w, b, mean, var):
        mean, var = mean.clone(), var.clone()
        return *aten._batch_norm_with_update(x, w, b, mean, var, 0.1, 1e-5), mean, var

    batch.add("updating", update, x, w, b, mean, var)
    half = (x.bfloat16(), w, b, mean, var)
    batch.add(
        "half input, float parameters", lambda *a: aten._native_batch_norm_legit_functional(*a, True, 0.1, 1e-5), *half
    )
    for train in (True, False):
        for mask in ([True, True, True], [True, False, False], [False, True, True]):

            def backward(g, x, w, rm, rv, m, s, train=train, mask=mask):
                grads = aten.native_batch_norm_backward(g, x, w, rm, rv, m, s, train, 1e-5, mask)
                return [r for r, wanted in zip(grads, mask, strict=True) if wanted]

            g, m, s = torch.randn(4, 3, 5), x.mean((0, 2)), 1 / x.var((0, 2), correction=0).sqrt()
            batch.add(f"gradient {train} {mask}", backward, g, x, w, mean, var, m, s)
    batch.check()


def test_parameters_of_another_type():
    # Torch adds up the parameters' gradients from terms that are rounded to bfloat16.
    batch = Batch(HALF | {torch.float32: (5e-2, 5e-2)})
    torch.manual_seed(0)
    x = torch.randn(2, 4, 6).bfloat16().requires_grad_()
    w, b = torch.rand(6, requires_grad=True), torch.randn(6, requires_grad=True)
    batch.add("layer norm", lambda x, w, b: F.layer_norm(x, (6,), w, b), x, w, b, backward=True)
    batch.add("layer norm, statistics", lambda x, w, b: aten.native_layer_norm(x, [6], w, b, 1e-5), x, w, b)
    w, b = torch.rand(4, requires_grad=True), torch.randn(4, requires_grad=True)
    batch.add("group norm", lambda x, w, b: F.group_norm(x, 2, w, b), x, w, b, backward=True)
    batch.add("group norm without", lambda x: F.group_norm(x, 2), x, backward=True)
    batch.check()


def test_rms_norm_is_one_op_each_way():
    batch = Batch(HALF)
    torch.manual_seed(0)
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.randn(3, 2, 5).to(dtype).requires_grad_()
        w = torch.rand(5).to(dtype).requires_grad_()
        for eps in (None, 1e-3):
            batch.add(f"{dtype} {eps}", lambda x, w, e=eps: F.rms_norm(x, (5,), w, e), x, w, backward=True)
        batch.add(f"{dtype} over two", lambda x: F.rms_norm(x, (2, 5)), x, backward=True)
    batch.check()


def test_weight_norm():
    batch = Batch()
    torch.manual_seed(0)
    v = torch.randn(3, 4, requires_grad=True)
    for dim, g in ((0, torch.rand(3, 1, requires_grad=True)), (1, torch.rand(1, 4, requires_grad=True))):
        batch.add(f"dim {dim}", lambda v, g, d=dim: torch._weight_norm(v, g, d), v, g, backward=True)
        batch.add(f"op, dim {dim}", lambda v, g, d=dim: aten._weight_norm_interface(v, g, d)[0], v, g, backward=True)
    batch.check()


def test_second_derivatives():
    def twice(f):
        def g(*args):
            out = f(*args).square().sum()
            grads = torch.autograd.grad(out, args, create_graph=True)
            return sum(x.square().sum() for x in grads)

        return g

    batch = Batch({torch.float32: (1e-4, 1e-4)})
    torch.manual_seed(0)
    x = torch.randn(3, 4, requires_grad=True)
    batch.add("softmax", twice(lambda x: torch.softmax(x, 1)), x, backward=True)
    batch.add("log_softmax", twice(lambda x: torch.log_softmax(x, 1)), x, backward=True)
    batch.add("layer_norm", twice(lambda x: F.layer_norm(x, (4,))), x, backward=True)
    batch.check()
