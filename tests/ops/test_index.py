"""Indexing, gathers, scatters and embeddings equal torch on the CPU."""

import pytest
import torch
import torch.nn.functional as F
from cpu_reference import Batch, check_errors, check_opinfo

import torch_go_xla
import torch_go_xla.debug.metrics as metrics
from torch_go_xla.debug import compilations

TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.bool, torch.complex64)

OPS = """
    __getitem__ index_select index_add index_copy index_fill gather scatter scatter_add take put take_along_dim
    masked_fill masked_scatter nn.functional.embedding nn.functional.embedding_bag nn.functional.one_hot nonzero_static
    _unsafe_masked_index _unsafe_masked_index_put_accumulate
""".split()

# Their samples differ in the reduction alone, and each takes long to compile.
REDUCTIONS = ("index_reduce", "scatter_reduce")

ROWS = """
    index _unsafe_index index_put _index_put_impl _index_put_impl_ _unsafe_index_put index_select index_add index_copy
    index_fill index_reduce gather scatter scatter_add scatter_reduce take put masked_fill masked_scatter
    masked_scatter_backward embedding embedding_dense_backward embedding_renorm embedding_renorm_ _embedding_bag
    _embedding_bag_forward_only _embedding_bag_backward _embedding_bag_dense_backward
    _embedding_bag_per_sample_weights_backward nonzero_static
""".split()

aten = torch.ops.aten

# Torch rounds a sum of values at one place to the half type after every addition, here it is rounded once.
HALF = {torch.bfloat16: (5e-2, 2e-1), torch.float16: (5e-3, 3e-2)}


@pytest.mark.parametrize("name", OPS)
def test_opinfo(name):
    check_opinfo(name, TYPES, tolerance=HALF)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name):
    check_opinfo(name, (torch.float32, torch.bfloat16, torch.int64), most=4, tolerance=HALF)


def outside_or_overlapping(sample):
    """Tell samples whose error torch finds in the values of an index, or in the memory of out=."""
    if "out" in sample.kwargs:
        return True
    index = [a for a in sample.args if isinstance(a, torch.Tensor) and a.dtype == torch.int64]
    return any(int(i.max()) >= max(sample.input.shape, default=1) for i in index if i.numel())


@pytest.mark.parametrize("name", OPS)
def test_errors(name):
    check_errors(name, skip=outside_or_overlapping)


def test_index_forms():
    batch = Batch()
    x = torch.randn(4, 5, 6, requires_grad=True)
    i, j = torch.tensor([0, -1, 2]), torch.tensor([[1], [-5]])
    forms = {
        "one": (i,),
        "adjacent": (i, j),
        "first kept": (slice(None), i, j),
        "apart": (i, slice(None), j),
        "with a slice": (slice(1, 3), i),
        "with a new dimension": (None, i, slice(None), i),
        "with a number": (1, slice(None), i),
        "all": (i, i, i),
        "0-dim": (torch.tensor(-2),),
        "int32": (i.int(), slice(None), 0),
        "ellipsis": (..., j),
        "nothing": (torch.tensor([], dtype=torch.long),),
        "list": ([2, 0], [1, 1]),
    }
    for label, form in forms.items():
        batch.add(label, lambda x, form: x[form], x, form, backward=True)

        def write(x, form):
            y = x.detach().clone()
            y[form] = 7
            return y

        batch.add(f"{label}, written", write, x, form)
    batch.check()


def _reads(x, i):
    parts = [x[i], x[-1 - i], x[:, i], x[i, ::2], x[i : i + 3], x[i : i + 5 : 2], x[..., i], x[None, i], x[[i, 0]]]
    parts += [x[i, i + 1], x.select(1, i), x.narrow(0, i, 2), x.unbind(0)[i], x[i].reshape(2, 3).t()]
    return [2 * part for part in parts] + [x.index_select(0, torch.tensor([i], device=x.device))]


def _writes(x, i):
    x[i] = 1.5
    x[i, ::2] = 2.5
    x[i : i + 2, 3:] = x[0, 3:] * 3
    x[:, i].add_(4.5)
    return [x]


def _gradients(x, i):
    x = x.detach().requires_grad_()
    parts = [x[i], x[i - 4, :] * 3, x[2, i], x[i : i + 3], x.narrow(1, i, 2) * 5, x[i : i + 5 : 2], x[:, i : i + 3 : 2]]
    parts += [x.view(4, 2, 6)[i], x.flatten()[i : i + 3], x.view(4, 12).diagonal(i), x.view(12, 4).diagonal(-i)]
    parts += [x.view(2, 2, 12).diagonal(i, 1, 2), x.roll(i, 0) * x, x.roll(-i), x.roll((i, -9 * i), (0, 1)) * x]
    y = sum(part.square().sum() for part in parts)
    return torch.autograd.grad(y, x)


def _moves(x, i):
    row, rows = torch.full((6,), 2.5, device=x.device), torch.full((3, 6), 3.5, device=x.device)
    return [
        x.roll(i),
        x.roll((i, -9 * i), (0, 1)),
        x.select_scatter(row, 0, i),
        x.select_scatter(row, 0, -i),
        x.slice_scatter(rows, 0, i, i + 3),
        x.slice_scatter(rows, 0, i - 8, i - 5),
        x.view(4, 12).diagonal_scatter(row[:4], i),
    ]


@pytest.mark.compiled
@pytest.mark.parametrize("use", [_reads, _writes, _gradients, _moves])
def test_python_indices_compile_once(use):
    x = torch.arange(48.0).reshape(8, 6)
    y = x.to("xla")
    torch_go_xla.sync()
    before = metrics.counter_value("UncachedCompile") or 0
    for i in range(1, 4):
        want, got = use(x, i), use(y, i)
        torch_go_xla.sync()
        for a, b in zip(want, got, strict=True):
            torch.testing.assert_close(b.cpu(), a, rtol=0, atol=0)
    assert (metrics.counter_value("UncachedCompile") or 0) - before == 1, compilations.explain()


def test_index_put():
    batch = Batch()
    i, j = torch.tensor([0, 2, 0, -1]), torch.tensor([1, 1, 1, 0])
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64):
        x = torch.arange(20).reshape(4, 5).to(dtype)
        for values in (torch.ones(4), torch.ones(1), torch.tensor(3.0)):
            batch.add(f"{dtype} accumulate", torch.index_put, x, (i, j), values.to(dtype), accumulate=True)
            batch.add(f"{dtype}", torch.index_put, x, (i, j), values.to(dtype))
        batch.add(f"{dtype} rows", torch.index_put, x, (i,), x, accumulate=True)
        batch.add(f"{dtype} columns", aten.index_put, x, (None, i), x[:, :4], accumulate=True)
    x = torch.randn(4, 5, requires_grad=True)
    v = torch.randn(4, requires_grad=True)
    batch.add("gradients", torch.index_put, x, (i, j), v, True, backward=True)
    batch.check()


def test_masks_with_one_value():
    """Writing one value by a mask needs no count of its places."""
    batch = Batch()
    x = torch.randn(3, 4, 2)
    masks = {"all": x > 0, "first two": x[..., 0] > 0, "first": x[:, 0, 0] > 0}
    for label, mask in masks.items():
        batch.add(f"{label} number", torch.index_put, x, (mask,), torch.tensor(5.0))
        batch.add(f"{label} accumulate", torch.index_put, x, (mask,), torch.tensor(5.0), True)
    batch.add("rows", torch.index_put, x, (masks["first two"],), torch.tensor([1.0, 2.0]))
    batch.add("middle", aten.index_put, x, (None, x[0, :, 0] > 0), torch.tensor(1.0))
    batch.add("bytes", torch.index_put, x, ((x > 0).byte(),), torch.tensor(1.0), True)
    batch.add("another type", torch.index_put, x, (x > 0,), torch.tensor([1.0], dtype=torch.float64))
    batch.check()


def test_index_errors():
    """The errors of indexing come at the call, with torch's class."""
    x = torch.randn(3, 4)
    empty = torch.zeros(3, 0)
    long = torch.tensor
    cases = [
        lambda x, e, i: x[i, i, i],
        lambda x, e, i: x[i.float()],
        lambda x, e, i: x[i, torch.tensor([0, 1, 2], device=i.device)],
        lambda x, e, i: e[:, i],
        lambda x, e, i: x.index_put((i,), x[0, :3]),
        lambda x, e, i: x.index_put((i,), x[:2].double()),
        lambda x, e, i: torch.embedding(x, i.float()),
        lambda x, e, i: torch.index_select(x, 0, x),
        lambda x, e, i: torch.index_select(x, 0, torch.stack([i, i])),
        lambda x, e, i: torch.index_select(e, 1, i),
        lambda x, e, i: torch.gather(x, 0, i),
        lambda x, e, i: torch.gather(x, 0, x),
        lambda x, e, i: x.scatter(0, i[None], x.double()),
        lambda x, e, i: x.scatter(0, i[None], 1.0, reduce="mean"),
        lambda x, e, i: x.long().scatter(0, i[None], 1j),
        lambda x, e, i: x.scatter_reduce(0, i[None], x, "middle"),
        lambda x, e, i: x.index_add(0, i, x),
        lambda x, e, i: x.index_add(0, i, x[:2].double()),
        lambda x, e, i: x.index_copy(0, i, x),
        lambda x, e, i: x.index_copy(0, i.int(), x[:2]),
        lambda x, e, i: x.index_copy(0, i, x[:2, :3]),
        lambda x, e, i: x.index_fill(0, i.int(), 1.0),
        lambda x, e, i: x.index_fill(0, i, i),
        lambda x, e, i: x.index_reduce(0, i, x[:2], "sum"),
        lambda x, e, i: x.take(i.int()),
        lambda x, e, i: e.take(i),
        lambda x, e, i: x.put(i, x[0]),
        lambda x, e, i: x.masked_fill(x, 1),
        lambda x, e, i: x.long().masked_fill(x > 0, float("inf")),
        lambda x, e, i: x.byte().masked_fill(x > 0, 256),
        lambda x, e, i: x.masked_scatter(x > 0, x.double()),
    ]
    differ = []
    for k, case in enumerate(cases):
        errors = []
        for device in ("cpu", "xla"):
            with pytest.raises(Exception) as caught:  # noqa: PT011 - the class is compared
                case(x.to(device), empty.to(device), long([0, 1]).to(device))
            errors.append(caught.value)
        if not isinstance(errors[1], type(errors[0])):
            differ.append(f"case {k}: {errors[0]!r}, on xla {errors[1]!r}")
    assert not differ, "\n".join(differ)


def test_embedding():
    batch = Batch()
    weight = torch.randn(7, 3, requires_grad=True)
    index = torch.tensor([[1, 2, 2], [6, 0, 1]])
    for padding in (None, 2, -1):
        for by_frequency in (False, True):
            batch.add(
                f"padding {padding}, frequency {by_frequency}",
                lambda w, i, p=padding, s=by_frequency: F.embedding(i, w, padding_idx=p, scale_grad_by_freq=s),
                weight,
                index,
                backward=True,
            )
    batch.add("int32", F.embedding, index.int(), weight, backward=True)
    batch.add("0-dim", F.embedding, torch.tensor(3), weight, backward=True)
    batch.add("no indices", F.embedding, index[:0], weight, backward=True)
    for norm in (2.0, 1.0, float("inf")):
        batch.add(f"renorm {norm}", aten.embedding_renorm, weight.detach(), index[0], 0.5, norm)
    batch.check()


def test_embedding_bag():
    batch = Batch()
    weight = torch.randn(7, 3, requires_grad=True)
    index = torch.tensor([1, 2, 2, 6, 0, 1])
    samples = torch.rand(6, requires_grad=True)
    for offsets in (torch.tensor([0, 2, 2, 5]), torch.tensor([0]), torch.tensor([0, 6])):
        for mode in ("sum", "mean", "max"):
            for padding in (None, 2):
                batch.add(
                    f"{mode} {offsets.tolist()} padding {padding}",
                    lambda w, i, o, m=mode, p=padding: F.embedding_bag(i, w, o, mode=m, padding_idx=p),
                    weight,
                    index,
                    offsets,
                    backward=True,
                )
        batch.add(
            f"weighted {offsets.tolist()}",
            lambda w, i, o, s: F.embedding_bag(i, w, o, mode="sum", per_sample_weights=s),
            weight,
            index,
            offsets,
            samples,
            backward=True,
        )
    last = torch.tensor([0, 2, 6])
    batch.add("last offset", lambda w, i, o: F.embedding_bag(i, w, o, include_last_offset=True), weight, index, last)
    batch.check()


def test_write_by_values():
    """scatter and its kin where the index is smaller than the tensors, and where places meet."""
    batch = Batch()
    x, source = torch.randn(4, 5), torch.randn(6, 6)
    index = torch.tensor([[0, 3, 1], [0, 2, 1]])
    for dim in (0, 1):
        for reduce in ("sum", "prod", "mean", "amax", "amin"):
            for include in (True, False):
                batch.add(
                    f"{reduce} {dim} {include}",
                    torch.scatter_reduce,
                    x,
                    dim,
                    index,
                    source,
                    reduce,
                    include_self=include,
                )
        batch.add(f"gather {dim}", torch.gather, x, dim, index)
        batch.add(f"gather int32 {dim}", torch.gather, x, dim, index.int())
    batch.add("mean of integers", torch.scatter_reduce, x.long() * 9, 0, index, (source * 9).long(), "mean")
    batch.add("0-dim", torch.scatter, torch.tensor(1.0), 0, torch.tensor(0), torch.tensor(2.0))
    batch.check()


def test_nothing_is_divided_by_zero():
    """An index wraps by a remainder of the size, which may be 0."""
    none = torch.zeros(0, 3, dtype=torch.int64, device="xla")
    assert torch.take_along_dim(none.float(), none, 0).shape == (none % 0).shape == (0, 3)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        torch.ones(2, dtype=torch.int64, device="xla") % 0


def test_nonzero_static():
    batch = Batch()
    x = torch.tensor([[0, 3, 0], [1, 0, 2]])
    for size in (0, 2, 3, 7):
        batch.add(f"{size}", torch.nonzero_static, x, size=size)
        batch.add(f"{size} filled", torch.nonzero_static, x, size=size, fill_value=9)
    batch.check()


def test_masked_scatter():
    batch = Batch()
    x = torch.randn(4, 5, requires_grad=True)
    mask = torch.rand(4, 5) > 0.5
    source = torch.randn(5, 5, requires_grad=True)
    batch.add("same shape", torch.masked_scatter, x, mask, source, backward=True)
    batch.add("broadcast", torch.masked_scatter, x, mask[:1], source, backward=True)
    batch.add("nothing", torch.masked_scatter, x, torch.zeros(4, 5, dtype=torch.bool), source)
    batch.check()


def test_masks_of_bytes_warn():
    x = torch.arange(12.0).reshape(4, 3)
    mask = torch.tensor([1, 0, 2, 0], dtype=torch.uint8)
    for use in (
        lambda x, mask: x[mask],
        lambda x, mask: x[:, mask[:3]],
        lambda x, mask: x.index_put((mask,), x[:2]),
        lambda x, mask: x.index_put((mask,), x[:2], accumulate=True),
        lambda x, mask: x.to("xla")[mask.cpu()].cpu(),
    ):
        with pytest.warns(UserWarning, match="indexing with dtype torch.uint8 is now deprecated"):
            theirs = use(x, mask)
        with pytest.warns(UserWarning, match="indexing with dtype torch.uint8 is now deprecated") as said:
            ours = use(x.to("xla"), mask.to("xla"))
        assert said[0].filename == __file__
        assert torch.equal(ours.cpu(), theirs)


@pytest.mark.parametrize("index", [torch.tensor([0, 2]), torch.tensor(1), torch.tensor([True, False, True])], ids=str)
def test_an_index_and_a_number_of_the_cpu(index: torch.Tensor) -> None:
    """As on CUDA: an index may be on the CPU, and so may a value of no dimensions."""
    for value in (5.0, torch.tensor(4.0)):
        results = []
        for device in ("cpu", "xla"):
            x = torch.arange(12.0, device=device).view(3, 4)
            x[index] = value
            results.append((x[index].tolist(), x.tolist(), x.index_put((index,), torch.tensor(2.0)).tolist()))
        assert results[0] == results[1]
    if index.dim():  # without one it is a copy
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            torch.zeros(3, 4, device="xla")[index] = torch.ones(4)
