"""torch's own CPU kernels inside compiled programs."""

from __future__ import annotations

import re

import pytest
import torch
import torch.nn.functional as F

import torch_go_xla.debug.metrics as metrics
from torch_go_xla import _XLAC
from torch_go_xla._core import core

OPS = ("convolution", "convolution_backward", "max_pool2d_with_indices", "max_pool2d_with_indices_backward")

# spatial dimensions, stride, padding, dilation, groups, transposed; each with enough work for torch's kernel
CONVOLUTIONS = [
    (1, 1, 2, 1, 1, False),
    (2, 1, 1, 1, 1, False),
    (2, 2, 1, 2, 4, False),
    (2, 1, 1, 1, 32, False),  # depthwise
    (2, 2, 1, 1, 2, True),
    (3, 2, 1, 1, 1, False),
]


def called(*tensors):
    """Return the ops of torch that the program of some tensors calls."""
    return set(re.findall(r'"torch_op".*?op = "([^"]+)"', _XLAC._get_xla_tensors_hlo(list(tensors))))


def convolve(x, weight, bias, n, stride, padding, dilation, groups, transposed):
    leaves = [t.detach().requires_grad_() for t in (x, weight, bias)]
    if transposed:
        f = getattr(F, f"conv_transpose{n}d")
        y = f(*leaves, stride, padding, stride - 1, groups, dilation)
    else:
        y = getattr(F, f"conv{n}d")(*leaves, stride, padding, dilation, groups)
    y.backward(torch.randn(y.shape, generator=torch.Generator().manual_seed(1)).to(y.device))
    return [y.detach(), *(t.grad for t in leaves)]


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_convolution_and_its_gradients(case):
    n, *_, groups, transposed = case
    torch.manual_seed(0)
    x = torch.randn(4, 32, *[{1: 2048, 2: 64, 3: 10}[n]] * n)
    weight = torch.randn(32, 32 // groups, *[3] * n)
    bias = torch.randn(32)
    y = convolve(*(t.to("xla") for t in (x, weight, bias)), *case)
    assert "convolution_backward" in called(*y[1:])
    for got, want in zip(y, convolve(x, weight, bias, *case), strict=True):
        # Sums of up to 16384 products: torch splits them by its number of threads, which a test may have changed.
        torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-3)


def test_reduced_precision_is_torchs():
    x, weight = torch.randn(4, 16, 32, 32, dtype=torch.bfloat16), torch.randn(16, 16, 3, 3, dtype=torch.bfloat16)
    assert torch.equal(F.conv2d(x.to("xla"), weight.to("xla")).cpu(), F.conv2d(x, weight))


@pytest.mark.parametrize("shape", [(2, 8, 64, 64), (16, 64, 64)], ids=str)
def test_max_pooling_and_its_gradient(shape):
    def pool(x):
        x = x.detach().requires_grad_()
        y, places = F.max_pool2d(x, 3, 2, 1, return_indices=True)
        y.sin().sum().backward()
        return y.detach(), places, x.grad

    x = torch.randn(shape)
    x[..., 3, 5] = float("nan")
    got = pool(x.to("xla"))
    assert "max_pool2d_with_indices_backward" in called(got[2])
    for a, b in zip(got, pool(x), strict=True):
        torch.testing.assert_close(a.cpu(), b, equal_nan=True)


def test_a_convolution_of_doubles():
    x, weight = torch.randn(4, 16, 32, 32, dtype=torch.float64), torch.randn(16, 16, 3, 3, dtype=torch.float64)
    y = F.conv2d(x.to("xla"), weight.to("xla"))
    assert called(y) == {"convolution"}
    torch.testing.assert_close(y.cpu(), F.conv2d(x, weight))


def test_what_is_small_stays_with_xla():
    y = F.conv2d(torch.randn(1, 1, 8, 8, device="xla"), torch.randn(2, 1, 3, 3, device="xla"))
    assert called(y) == set()


def test_exported_text_runs_elsewhere():
    """The StableHLO of a program names no code of this process; what runs here does."""
    y = F.conv2d(torch.randn(4, 16, 32, 32, device="xla"), torch.randn(16, 16, 3, 3, device="xla"))
    assert "custom_call" not in _XLAC._get_stablehlo([y])
    assert called(y) == {"convolution"}


def test_one_option_switches_them_off(ok):
    on, off = (ok("torchcpu/step.py", *OPS, TORCH_GO_XLA_TORCH_KERNELS=v).splitlines() for v in "10")
    assert on[0] == ",".join(sorted(OPS))
    assert off[0] == ""
    assert float(on[1]) == pytest.approx(float(off[1]), rel=1e-4)


@pytest.mark.compiled
def test_programs_in_the_persistent_cache(ok, tmp_path):
    """A process that reads a program from the cache has the kernels as well."""
    first, second = (
        ok("torchcpu/step.py", *OPS, XLA_PERSISTENT_CACHE_PATH=str(tmp_path / "cache")).splitlines() for _ in range(2)
    )
    assert first[:2] == second[:2]
    assert first[2] == "0"
    assert int(second[2]) >= 1


def test_a_partitioned_program_has_none(ok):
    assert ok("torchcpu/step.py", *OPS, XLA_USE_SPMD="1", CPU_NUM_DEVICES="2").splitlines()[0] == ""


def test_from_many_threads(ok):
    """Programs of two devices that run at once share torch's kernels."""

    assert ok("torchcpu/from_many_threads.py", CPU_NUM_DEVICES="2") == "4\n"


def test_the_switch_is_documented():
    assert "TORCH_GO_XLA_TORCH_KERNELS" in {row[0] for row in core.config_table()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex128], ids=str)
def test_eigenvalues_and_ldl_factors_are_torchs(dtype):
    torch.manual_seed(0)
    x, b = torch.randn(2, 4, 4, dtype=dtype), torch.randn(4, 3, dtype=dtype)
    metrics.clear_counters()

    def results(x, b):
        x = x.detach().requires_grad_()
        values, vectors = torch.linalg.eig(x)
        (values.abs().sum() + vectors.abs().square().sum()).backward()
        factors, pivots, info = torch.linalg.ldl_factor_ex((x + x.mH).detach(), hermitian=True)
        solved = torch.linalg.ldl_solve(factors, pivots, b, hermitian=True)
        return values, vectors, x.grad, torch.linalg.eigvals(x[:1]), factors, pivots, info, solved

    for got, want in zip(results(x.to("xla"), b.to("xla")), results(x, b), strict=True):
        torch.testing.assert_close(got.detach().cpu(), want.detach(), rtol=1e-4, atol=1e-5)
    assert metrics.executed_fallback_ops() == []


def test_eigenvalues_of_no_numbers_are_refused():
    values = torch.linalg.eigvals(torch.full((2, 2), torch.nan, device="xla"))
    with pytest.raises(RuntimeError, match="input tensor should not contain infs or NaNs"):
        values.cpu()


@pytest.mark.compiled
def test_memory_that_kernels_free_is_used_again(ok):
    """A step fills no fresh pages: 9,000 to 14,000 if the C library gives the kernels' memory back after each."""
    faults = ok("torchcpu/memory_that_kernels_free_is_used_again.py")
    assert min(map(int, faults.split()[3:])) < 1000


def test_indices_of_a_pooling_are_values_that_may_be_wrong():
    """Torch's kernel writes to wherever they say."""
    gradient, x = torch.ones(1, 1, 200, 200, device="xla"), torch.ones(1, 1, 400, 400, device="xla")
    for index in (1 << 40, 400 * 400, -1):
        places = torch.full((1, 1, 200, 200), index, device="xla")
        out = torch.ops.aten.max_pool2d_with_indices_backward(
            gradient, x, [2, 2], [2, 2], [0, 0], [1, 1], False, places
        )
        with pytest.raises(RuntimeError, match="an index is out of range of the input's plane"):
            out.cpu()


def test_pivots_are_values_that_may_be_wrong():
    a = torch.eye(4)
    for pivots in ([1, 2, 3, 1 << 30], [0, 2, 3, 4], [-1, 2, 3, 4], [1, 2, 3, -4]):
        p = torch.tensor(pivots, dtype=torch.int32)
        with pytest.raises(RuntimeError, match="pivot"):
            torch.linalg.ldl_solve(a.to("xla"), p.to("xla"), a.to("xla")).cpu()


def test_matrices_of_many_dimensions():
    a = torch.tensor([[2.0, 1.0], [1.0, 2.0]]).view([1] * 30 + [2, 2])
    torch.testing.assert_close(torch.linalg.eig(a.to("xla"))[0].cpu(), torch.linalg.eig(a)[0])
