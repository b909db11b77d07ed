"""Reductions and scans equal torch on the CPU."""

import math

import pytest
import torch
from cpu_reference import Batch, check_errors, check_opinfo

TYPES = (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool, torch.complex64)

OPS = """
    sum mean amax amin max min argmax argmin any all prod var std var_mean std_mean count_nonzero nansum nanmean aminmax
    linalg.vector_norm logsumexp cumsum cumprod cummax cummin logcumsumexp median nanmedian renorm dist cdist
    nn.functional.pdist trapezoid cumulative_trapezoid
""".split()

# The gradient exponentiates a difference of sums: in float32 torch's own is this far from that in float64.
TOLERANCES = {"logcumsumexp": {torch.float32: (2e-3, 1e-4)}}

ROWS = """
    sum mean amax amin max min argmax argmin any all prod var std var_mean std_mean count_nonzero nansum aminmax
    _aminmax linalg_vector_norm norm logsumexp cumsum cumprod cummax cummin logcumsumexp _logcumsumexp median
    nanmedian kthvalue mode renorm dist _cdist_forward _cdist_backward _euclidean_dist _pdist_forward _pdist_backward
""".split()


@pytest.mark.parametrize("name", OPS)
def test_opinfo(name):
    check_opinfo(name, TYPES, most=6, tolerance=TOLERANCES.get(name), no_backward=name == "prod")


def test_gradient_of_prod():
    batch = Batch()
    torch.manual_seed(0)
    x = torch.randn(3, 4, requires_grad=True)
    one, two = x.detach().clone(), x.detach().clone()
    one[1, 2] = 0
    two[1, 1:3] = 0
    for label, t in (("no zero", x), ("a zero", one.requires_grad_()), ("two zeros", two.requires_grad_())):
        batch.add(f"along 1, {label}", lambda x: x.prod(1), t, backward=True)
        if label != "no zero":
            batch.add(f"all, {label}", torch.prod, t, backward=True)
    batch.check()


@pytest.mark.parametrize("name", ["kthvalue", "mode"])
def test_opinfo_values(name):
    # Which of several equal elements is found is open in torch: the values are compared, and that they
    # are at the indices in test_indices.
    check_opinfo(name, TYPES, most=6, result=lambda out: out[0], no_backward=True)


@pytest.mark.parametrize("name", OPS)
def test_errors(name):
    # What an out= argument may be is checked for all ops alike, not by the rows.
    check_errors(name, skip=lambda s: "out" in s.kwargs)


def test_indices():
    batch = Batch()
    torch.manual_seed(0)
    for dtype in (torch.int64, torch.float32, torch.bool):
        x = torch.randint(0, 2 if dtype == torch.bool else 4, (5, 7)).to(dtype)
        for dim in (0, 1):
            batch.add(f"mode {dtype} {dim}", lambda x, d=dim: x.gather(d, x.mode(d, True)[1]), x)
            if dtype != torch.bool:
                batch.add(f"kthvalue {dtype} {dim}", lambda x, d=dim: x.gather(d, x.kthvalue(3, d, True)[1]), x)
                batch.add(f"median {dtype} {dim}", lambda x, d=dim: x.gather(d, x.median(d, True)[1]), x)
    batch.check()


NAN, INF = math.nan, math.inf


def test_not_finite():
    batch = Batch()
    rows = torch.tensor(
        [
            [1.0, NAN, 3.0, NAN],
            [INF, 1.0, -INF, 0.0],
            [-INF, -INF, -INF, -INF],
            [INF, INF, 2.0, 2.0],
            [0.0, -0.0, 1.0, 1.0],
        ]
    )
    for dtype in (torch.float32, torch.bfloat16):
        x = rows.to(dtype)
        for f in (torch.max, torch.min, torch.median, torch.nanmedian, torch.cummax, torch.cummin):
            batch.add(f"{f.__name__} {dtype}", f, x, 1)
        for f in (
            torch.argmax,
            torch.argmin,
            torch.sum,
            torch.nansum,
            torch.logsumexp,
            torch.prod,
            torch.any,
            torch.all,
        ):
            batch.add(f"{f.__name__} {dtype}", f, x, 1)
        for f in (torch.logcumsumexp, torch.cumsum, torch.cumprod, torch.var, torch.amax, torch.count_nonzero):
            batch.add(f"{f.__name__} {dtype}", f, x, 1)
        for p in (0, 0.5, 1, 2, 3, -1, INF, -INF):
            batch.add(f"norm {p} {dtype}", torch.linalg.vector_norm, x, p, 1)
    batch.check()


def test_empty():
    batch = Batch()
    for shape in ((0,), (0, 3), (2, 0)):
        x = torch.zeros(shape)
        for f in (
            torch.sum,
            torch.mean,
            torch.prod,
            torch.var,
            torch.any,
            torch.all,
            torch.nansum,
            torch.count_nonzero,
        ):
            batch.add(f"{f.__name__} {shape}", f, x)
        for f in (torch.median, torch.norm, torch.std):
            batch.add(f"{f.__name__} {shape}", f, x)
        batch.add(f"median int {shape}", torch.median, x.long())
        batch.add(f"median uint8 {shape}", torch.median, x.byte())
        for dim in range(len(shape)):
            for f in (
                torch.sum,
                torch.mean,
                torch.prod,
                torch.std,
                torch.any,
                torch.logsumexp,
                torch.cumsum,
                torch.cummax,
            ):
                batch.add(f"{f.__name__} {shape} {dim}", f, x, dim)
    batch.add("pdist of nothing", torch.pdist, torch.zeros(0, 3))
    batch.add("pdist without dimensions", torch.pdist, torch.zeros(2, 0))
    batch.add("cdist of nothing", torch.cdist, torch.zeros(0, 3, requires_grad=True), torch.zeros(2, 3), backward=True)
    for f in (torch.amax, torch.argmax, torch.mode, torch.aminmax):
        batch.add(f"{f.__name__}", lambda x, f=f: f(x, dim=1), torch.zeros(0, 3))
    batch.check()


def test_types():
    batch = Batch()
    x = torch.arange(-6, 6).reshape(3, 4)
    for dtype in (torch.float16, torch.float64, torch.int32, torch.uint8, torch.bool):
        for f in (torch.sum, torch.prod, torch.nansum):
            batch.add(f"{f.__name__} to {dtype}", f, x, dim=1, dtype=dtype)
            batch.add(f"{f.__name__} float to {dtype}", f, x * 1.7, dim=1, dtype=dtype)
        for f in (torch.cumsum, torch.cumprod):
            if dtype != torch.bool:
                batch.add(f"{f.__name__} to {dtype}", f, x, 1, dtype=dtype)
    for d in (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32):
        y = x.to(d)
        for f in (torch.sum, torch.prod, torch.any, torch.all, torch.count_nonzero, torch.amax, torch.amin):
            batch.add(f"{f.__name__} of {d}", f, y)
        for f in (torch.max, torch.cummax, torch.cumsum, torch.mode, torch.any):
            batch.add(f"{f.__name__} of {d} along 1", f, y, 1)
    batch.add("half sums past its range", torch.sum, torch.full((300,), 300.0, dtype=torch.float16))
    batch.add("half means past its range", torch.mean, torch.full((300,), 300.0, dtype=torch.float16))
    batch.check()


def test_long_scans():
    batch = Batch()
    torch.manual_seed(0)
    for n in (2, 17, 700):
        x = torch.randn(3, n)
        for f in (torch.cumsum, torch.cummax, torch.logcumsumexp):
            batch.add(f"{f.__name__} {n}", f, x, 1)
        batch.add(f"cumsum of {n} rows", torch.cumsum, x.t().contiguous(), 0)
    batch.check()


def test_correction_is_an_argument():
    batch = Batch()
    x = torch.randn(4, 6)
    for c in (0, 1, 1.5, 5, 6, 7, -1):
        batch.add(f"var {c}", lambda x, c=c: torch.var(x, 1, correction=c), x.clone().requires_grad_(), backward=True)
    batch.check()


def test_messages():
    x = torch.zeros(2, 3, device="xla")
    cases = [
        (IndexError, r"Dimension out of range \(expected to be in range of \[-2, 1\], but got 2\)", lambda: x.sum(2)),
        (RuntimeError, "dim 1 appears multiple times in the list of dims", lambda: x.amax([1, -1])),
        (NotImplementedError, r"mean\(\): could not infer output dtype. Input dtype must", lambda: x.long().mean()),
        (RuntimeError, r"amax\(\): Expected reduction dim to be specified", lambda: x[:0].amax()),
        (IndexError, r"max\(\): Expected reduction dim 0 to have non-zero size", lambda: x[:0].max(0)),
        (RuntimeError, "selected number k out of range for dimension 1", lambda: x.kthvalue(4)),
        (RuntimeError, "does not have an identity", lambda: torch.linalg.vector_norm(x[:0], math.inf)),
    ]
    for kind, text, call in cases:
        with pytest.raises(kind, match=text):
            call()


@pytest.mark.parametrize("name", ["all", "any"])
def test_truth_is_written_to_truth_only(name):
    op = getattr(torch, name)
    for args in ((), (0,)):
        for dtype in (torch.float32, torch.int32):
            outs = [torch.empty((2,) if args else (), dtype=dtype, device=d) for d in ("cpu", "xla")]
            with pytest.raises(RuntimeError) as want:
                op(torch.ones(3, 2) > 0, *args, out=outs[0])
            with pytest.raises(RuntimeError, match=str(want.value)):
                op(torch.ones(3, 2, device="xla") > 0, *args, out=outs[1])
        assert op(torch.ones(3, 2, device="xla") > 0, *args, out=outs[1].to(torch.uint8)).dtype == torch.uint8


def test_more_dimensions_than_a_reduction_knows():
    with pytest.raises(RuntimeError, match="only tensors with up to 64 dims are supported"):
        torch.ones([1] * 65, device="xla").sum(0)


@pytest.mark.parametrize("name", ["sum", "prod", "cumsum", "cumprod"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.int32, torch.uint8, torch.complex64, torch.bool], ids=str)
def test_an_out_argument_says_in_which_type_it_is_computed(name: str, dtype: torch.dtype) -> None:
    for x in (torch.tensor([[1.6, 1.6], [2.6, 0.5]]), torch.tensor([[3, 4], [5, 6]])):
        results = []
        for device in ("cpu", "xla"):
            try:
                out = torch.zeros(0, dtype=dtype, device=device)
                results.append(getattr(torch, name)(x.to(device), 0, out=out).tolist())
            except NotImplementedError as e:
                results.append(str(e))
        assert results[0] == results[1]


@pytest.mark.parametrize("name", ["sum", "prod", "cumsum", "cumprod"])
def test_a_type_that_is_given_counts_beside_out(name: str) -> None:
    """The number of uint8 is 0, as that of no type."""
    x = torch.tensor([[1.6, 1.6], [2.6, 0.5]])
    for dtype in (torch.uint8, torch.float32):
        out = torch.zeros(0, dtype=dtype, device="xla")
        want = getattr(torch, name)(x, 0, dtype=dtype)
        assert getattr(torch, name)(x.to("xla"), 0, dtype=dtype, out=out).tolist() == want.tolist()


def test_the_type_of_out_is_named_as_torch_names_it() -> None:
    for device in ("cpu", "xla"):
        with pytest.raises(RuntimeError, match="expected scalar_type Float but found Double"):
            torch.logcumsumexp(torch.ones(3, device=device), 0, out=torch.ones(3, dtype=torch.float64, device=device))
