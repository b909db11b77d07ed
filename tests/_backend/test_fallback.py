"""Ops without a row."""

import warnings

import pytest
import torch

import torch_go_xla.debug.metrics as metrics
from torch_go_xla._backend import fallback
from torch_go_xla._backend.core import native


@pytest.fixture(autouse=True)
def fresh_warnings(monkeypatch):
    monkeypatch.setattr(fallback, "_warned", set())


@pytest.fixture
def counted(monkeypatch):
    """Names that were counted as run on the CPU."""
    names = []
    monkeypatch.setattr(native(), "count", names.append, raising=False)
    return names


@pytest.fixture(scope="module")
def library():
    """Ops that no backend but the CPU has a kernel of."""
    lib = torch.library.Library("tgx_test", "FRAGMENT")
    lib.define("twice(Tensor x) -> Tensor")
    lib.define("split(Tensor x, int n) -> (Tensor, Tensor[])")
    lib.define("bump_(Tensor(a!) x, Tensor[] others) -> Tensor(a!)")
    lib.define("fill_all_(Tensor(a!)[] xs, float v) -> ()")
    lib.define("same(Tensor(a) x) -> Tensor(a)")
    lib.define("twice_into.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")
    lib.define("tripled(Tensor x) -> Tensor")
    lib.define("tripled.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")
    lib.define("counted(Tensor x) -> int")

    def bump_(x, others):
        for o in others:
            x.add_(o)
        return x

    lib.impl("twice", lambda x: x * 2, "CPU")
    lib.impl("split", lambda x, n: (x.sum(), list(x[:n].clone())), "CPU")
    lib.impl("bump_", bump_, "CPU")
    lib.impl("fill_all_", lambda xs, v: [x.fill_(v) for x in xs] and None, "CPU")
    lib.impl("same", lambda x: x, "CPU")
    lib.impl("twice_into.out", lambda x, *, out: out.resize_(x.shape).copy_(x * 2), "CPU")
    lib.impl("tripled", lambda x: x * 3, "CPU")
    lib.impl("counted", lambda x: x.numel(), "CPU")
    yield torch.ops.tgx_test
    lib._destroy()


def test_it_is_counted_and_warned_of_once(library, counted):
    x = torch.ones(2, device="xla")
    with pytest.warns(UserWarning, match="tgx_test::twice has no lowering for xla") as caught:
        y = library.twice(x)
    assert caught[0].filename == __file__
    assert y.is_xla and y.tolist() == [2, 2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        library.twice(x)
    assert counted == ["tgx_test::twice"] * 2


@pytest.mark.filterwarnings("ignore:.*no lowering")
def test_results_of_every_kind(library, counted):
    x = torch.arange(4.0).to("xla")
    total, parts = library.split(x, 2)
    assert total.is_xla and total.item() == 6 and [p.item() for p in parts] == [0, 1] and all(p.is_xla for p in parts)
    assert library.counted(x) == 4


@pytest.mark.filterwarnings("ignore:.*no lowering")
def test_what_is_written_is_written_back(library, counted):
    x = torch.zeros(4, device="xla")
    view = x[1:3]
    assert library.bump_(view, [torch.ones(2, device="xla"), view]) is view
    assert x.tolist() == [0, 2, 2, 0]
    library.fill_all_([x, view], 5.0)
    assert x.tolist() == [5, 5, 5, 5]


@pytest.mark.filterwarnings("ignore:.*no lowering")
def test_out_is_resized_and_written(library, counted):
    out = torch.empty(0, device="xla")
    assert library.twice_into(torch.ones(3, device="xla"), out=out) is out
    assert out.tolist() == [2, 2, 2]


@pytest.mark.filterwarnings("ignore:.*no lowering")
def test_out_by_the_functional_form(library, counted):
    out = torch.empty(0, dtype=torch.float64, device="xla")
    library.tripled(torch.ones(3, device="xla"), out=out)
    assert out.tolist() == [3, 3, 3] and counted == ["tgx_test::tripled"]
    with pytest.raises(RuntimeError, match="can't be cast"):
        library.tripled(torch.ones(3, device="xla"), out=torch.empty(3, dtype=torch.int64, device="xla"))


def test_an_op_that_returns_a_view_is_refused(library, counted):
    with pytest.raises(NotImplementedError, match="returns a view"):
        library.same(torch.ones(2, device="xla"))
    assert counted == []


def test_decompositions_come_first(counted):
    """aten::addcdiv's decomposition, were there no row."""
    x = torch.tensor([1.0, 2.0], device="xla")
    got = fallback._without_kernel(torch.ops.aten.addcdiv.default, (x, x, x), {"value": 2})
    assert got.tolist() == [3, 4] and counted == []


@pytest.mark.filterwarnings("ignore:.*no lowering")
def test_the_cpu_comes_last(counted):
    x = torch.tensor([3.0, 1.0, 2.0], device="xla")
    got = fallback.on_cpu(torch.ops.aten.sort.default, (x,), {"descending": True})
    assert got[0].tolist() == [3, 2, 1] and got[1].tolist() == [0, 2, 1] and counted == ["aten::sort"]


@pytest.mark.filterwarnings("ignore:.*no lowering")
def test_errors_on_the_cpu_are_the_callers(library, counted):
    with pytest.raises(RuntimeError):
        fallback.on_cpu(torch.ops.aten.mm.default, (torch.ones(2, 3, device="xla"),) * 2, {})


def test_masks_become_positions(counted):
    """The row of an index has no lowering for a mask; all that the host learns is how many ones it has."""
    t = torch.arange(12.0).view(3, 4)
    mask = t > 5
    for f in (
        lambda x, m: x[m],
        lambda x, m: x[:, m[1]],
        lambda x, m: x[m.any(1), 1:],
        lambda x, m: x[torch.tensor([0, 2]).to(x.device), m[2].nonzero()[:2, 0]],
        lambda x, m: x.clone().masked_fill_(m, 3),
        lambda x, m: x.clone().index_put_((m,), torch.tensor(9.0, device=x.device)),
    ):
        assert torch.equal(f(t.to("xla"), mask.to("xla")).cpu(), f(t, mask))
    assert set(counted) == {"SizeSync.aten::nonzero"}
    for x, m in ((t, mask[:2]), (t.to("xla"), mask[:2].to("xla"))):
        with pytest.raises(IndexError, match=r"shape of the mask \[2, 4\] at index 0 does not match"):
            x[m]


def test_data_dependent_shapes(counted):
    x = torch.tensor([1.0, 0.0, 3.0], device="xla")
    assert torch.nonzero(x).tolist() == [[0], [2]] and x[x > 0].tolist() == [1, 3]
    assert torch.unique(x).tolist() == [0, 1, 3] and torch.masked_select(x, x > 2).tolist() == [3]
    assert all(name.startswith("SizeSync.") for name in counted)


@pytest.mark.filterwarnings("ignore:.*no lowering")
def test_ops_of_other_libraries_are_told_too(library):
    library.twice(torch.ones(2, device="xla"))
    assert "tgx_test::twice" in metrics.executed_fallback_ops()
