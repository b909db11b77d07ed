"""Sorts and searches equal torch on the CPU."""

import pytest
import torch
from cpu_reference import Batch, check_errors, check_opinfo

TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.uint8, torch.bool)

ROWS = "sort topk searchsorted bucketize isin histc histogram".split()


@pytest.mark.parametrize("name", ["searchsorted", "bucketize", "isin", "msort", "histogram"])
def test_opinfo(name):
    check_opinfo(name, TYPES)


def test_histc():
    # Torch rounds to the half type after every step of finding the bin, here only the counts are rounded.
    check_opinfo("histc", (torch.float32, torch.float64))


@pytest.mark.parametrize("name", ["sort", "topk"])
def test_values(name):
    # Which of several equal elements comes first is open unless the sort is stable.
    check_opinfo(name, TYPES, result=lambda out: out[0], most=8)


@pytest.mark.parametrize("name", ["sort", "topk", "searchsorted", "bucketize", "isin", "histc", "histogram", "argsort"])
def test_errors(name):
    check_errors(name)


@pytest.mark.parametrize("dtype", TYPES)
def test_stable(dtype):
    batch = Batch()
    torch.manual_seed(1)
    x = torch.randint(0, 5, (6, 40)).to(dtype)
    for dim in (0, 1):
        for descending in (False, True):
            batch.add(f"{dim} {descending}", torch.sort, x, dim=dim, descending=descending, stable=True)
            batch.add(f"argsort {dim} {descending}", torch.argsort, x, dim=dim, descending=descending, stable=True)
    batch.check()


def test_nan_and_zeros():
    batch = Batch()
    nan, inf = float("nan"), float("inf")
    x = torch.tensor([nan, 1.0, -0.0, -inf, 0.0, inf, -nan, 1.0, nan])
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        y = x.to(dtype)
        for descending in (False, True):
            batch.add(f"sort {dtype} {descending}", torch.sort, y, stable=True, descending=descending)
        for k in (0, 2, 4, 9):
            for largest in (False, True):
                batch.add(f"topk {dtype} {k} {largest}", lambda x, k, g: torch.topk(x, k, largest=g)[0], y, k, largest)
    batch.check()


def test_topk():
    """The places belong to the values, in every dimension and for the extremes of the integers."""
    batch = Batch()
    for dtype in (torch.float32, torch.int64, torch.uint8, torch.int8):
        x = torch.randperm(60).reshape(3, 4, 5).to(dtype)
        for dim in (0, 1, -1):
            for largest in (False, True):
                batch.add(f"{dtype} {dim} {largest}", torch.topk, x, 2, dim, largest)
    ends = torch.iinfo(torch.int64)
    x = torch.tensor([ends.max, ends.min, 0, -1])
    batch.add("extremes", torch.topk, x, 4)
    batch.add("extremes, smallest", torch.topk, x, 4, largest=False)
    batch.add("0-dim", torch.topk, torch.tensor(3.0), 1)
    y = torch.randperm(12).reshape(3, 4).float().requires_grad_()
    batch.add("gradient", lambda y: torch.topk(y, 2, 0)[0], y, backward=True)
    batch.add("gradient of sort", lambda y: torch.sort(y, 1, descending=True)[0], y, backward=True)
    batch.check()


def test_search():
    """Few boundaries are counted, many searched."""
    batch = Batch()
    torch.manual_seed(2)
    values = torch.randint(-10, 300, (2, 50)).float()
    values[0, :3] = torch.tensor([float("nan"), float("inf"), -float("inf")])
    for n in (0, 7, 128, 129):
        boundaries = torch.sort(torch.randint(0, 290, (n,)))[0].float()
        rows = torch.sort(torch.randint(0, 290, (2, n)))[0].float()
        for right in (False, True):
            batch.add(f"bucketize {n} {right}", torch.bucketize, values, boundaries, right=right)
            batch.add(f"searchsorted {n} {right}", torch.searchsorted, rows, values, right=right)
    order = torch.tensor([2, 0, 1])
    unsorted = torch.tensor([2.0, 3.0, 1.0])
    batch.add("sorter", torch.searchsorted, unsorted, values, sorter=order)
    batch.add("side", torch.searchsorted, unsorted[order], values, side="right", out_int32=True)
    batch.add("types", torch.searchsorted, torch.tensor([1, 2, 3]), values)
    batch.add("number", lambda s: torch.searchsorted(s, 2.5), torch.tensor([1, 2, 3]))
    batch.add("number in integers", lambda s: torch.bucketize(2, s), torch.tensor([1.0, 2.0, 3.0]))
    batch.check()


def test_histograms():
    batch = Batch()
    x = torch.tensor([1.0, 2.0, 2.0, 5.0, 2.5])
    weight = torch.tensor([1.0, 2.0, 0.5, 1.0, 3.0])
    edges = torch.tensor([1.0, 2.0, 2.5, 5.0])
    for density in (False, True):
        batch.add(f"edges {density}", torch.histogram, x, edges, weight=weight, density=density)
        batch.add(f"range {density}", torch.histogram, x, 3, range=(0.0, 4.0), density=density)
        batch.add(f"all {density}", torch.histogram, x, 3, density=density)
    batch.add("one value", torch.histogram, x[:1], 3)
    batch.add("nothing", torch.histogram, x[:0], 3)
    batch.add("histc of one value", torch.histc, x[:1], 3)
    batch.add("histc of nothing", torch.histc, x[:0], 3)
    batch.add("histc of a part", torch.histc, x, 3, 2, 4)
    batch.check()


def test_isin():
    batch = Batch()
    torch.manual_seed(3)
    x = torch.randint(0, 5000, (20, 20))
    for n in (0, 1, 30, 2000):
        tests = torch.randint(0, 5000, (n,))
        for invert in (False, True):
            batch.add(f"{n} {invert}", torch.isin, x, tests, invert=invert)
    batch.add("number", lambda x: torch.isin(x, int(x[0, 0])), x)
    batch.add("a number among", lambda x: torch.isin(7, x), x)
    batch.add("types", torch.isin, x, x[0].float())
    batch.check()
