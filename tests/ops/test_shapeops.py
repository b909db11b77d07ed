"""Ops that move elements equal torch on the CPU."""

import pytest
import torch
from cpu_reference import Batch, check_errors, check_opinfo

TYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64)

OPS = """
    cat stack hstack vstack dstack column_stack flip fliplr roll rot90 tril triu repeat tile diag_embed diag diagflat
    select_scatter slice_scatter diagonal_scatter as_strided_scatter trace unfold
    block_diag cartesian_prod combinations kron meshgrid
""".split()

COPIES = """
    view_copy permute_copy transpose_copy t_copy squeeze_copy unsqueeze_copy expand_copy narrow_copy alias_copy
    diagonal_copy unfold_copy split_with_sizes_copy unbind_copy as_strided_copy
""".split()

ROWS = """
    cat stack flip roll repeat repeat_interleave tril triu trace diag_embed select_scatter select_backward slice_scatter
    slice_backward diagonal_scatter diagonal_backward as_strided_scatter unfold_backward alias_copy detach_copy
    lift_fresh_copy view_copy _reshape_copy unsqueeze_copy squeeze_copy expand_copy permute_copy transpose_copy t_copy
    select_copy slice_copy narrow_copy view_as_real_copy view_as_complex_copy diagonal_copy unfold_copy
    split_with_sizes_copy split_copy unbind_copy as_strided_copy
""".split()

aten = torch.ops.aten


@pytest.mark.parametrize("name", OPS)
def test_opinfo(name):
    check_opinfo(name, TYPES)


@pytest.mark.parametrize("name", COPIES)
def test_copies(name):
    check_opinfo(name, (torch.float32, torch.int64), most=6)


@pytest.mark.parametrize("name", [*OPS, "permute_copy", "transpose_copy", "t_copy", "squeeze_copy", "expand_copy"])
def test_errors(name):
    # The memory of out= is another matter than the values.
    check_errors(name, skip=lambda s: "out" in s.kwargs)


def test_cat_types():
    batch = Batch()
    f, i, b = torch.randn(2, 3), torch.arange(6).reshape(2, 3), torch.ones(2, 3, dtype=torch.bool)
    batch.add("float and int", torch.cat, (f, i))
    batch.add("int and bool", torch.cat, (i, b), 1)
    batch.add("half and bfloat16", torch.cat, (f.half(), f.bfloat16()))
    batch.add("vector of nothing", torch.cat, (torch.zeros(0), f), 1)
    batch.add("nothing at all", torch.cat, (torch.zeros(0), torch.zeros(0)))
    batch.add("stack of types", torch.stack, (f, i, b), -1)
    batch.check()


def test_gradients_of_views():
    batch = Batch()
    x = torch.randn(5, 6, requires_grad=True)
    views = {
        "select": lambda x: x.select(1, -2),
        "slice": lambda x: x[1:5:2, 2:],
        "diagonal": lambda x: x.diagonal(1),
        "unfold overlapping": lambda x: x.unfold(1, 3, 1),
        "unfold apart": lambda x: x.unfold(0, 2, 3),
        "expand": lambda x: x[None].expand(3, 5, 6),
        "tril": lambda x: x.tril(-1),
        "repeat": lambda x: x.repeat(2, 1, 3),
        "flip": lambda x: x.flip(0, 1),
        "roll": lambda x: x.roll((7, -1), (0, 1)),
        "cat": lambda x: torch.cat([x, x[:2]]),
    }
    for label, view in views.items():
        batch.add(label, view, x, backward=True)
    batch.add("wide windows", lambda x: x.unfold(0, 40, 7), torch.randn(100, requires_grad=True), backward=True)
    batch.check()


def test_backwards():
    """The gradients of views as ops, for arguments that autograd does not give."""
    batch = Batch()
    g = torch.randn(3, 2)
    batch.add("select", aten.select_backward, g, [3, 4, 2], 1, -1)
    batch.add("slice", aten.slice_backward, g, [3, 9], 1, 1, 100, 5)
    batch.add("slice of nothing", aten.slice_backward, g[:, :0], [3, 9], 1, 5, 5, 1)
    batch.add("diagonal below", aten.diagonal_backward, torch.randn(3, 3), [5, 3, 3], -1, 0, 2)
    batch.add("one for all", aten.select_backward, torch.tensor(2.0), [3, 4], 0, 1)
    batch.add("a row for all", aten.slice_backward, g[0], [4, 2], 0, 1, 3, 1)
    batch.add("diagonal of nothing", aten.diagonal_backward, g[:, :0], [3, 4, 4], 9, 1, 2)
    batch.add("unfold of 0-dim", lambda x: x.unfold(0, 1, 1), torch.tensor(2.0, requires_grad=True), backward=True)
    batch.check()


def test_writes_to_parts():
    batch = Batch()
    x = torch.randn(5, 6)
    batch.add("select, another type", torch.select_scatter, x, torch.ones(6, dtype=torch.int64), 0, -1)
    batch.add("slice", torch.slice_scatter, x, torch.ones(2, 6), 0, -2)
    batch.add("slice with steps", torch.slice_scatter, x, torch.ones(5, 3), 1, 0, 6, 2)
    batch.add("slice past the end", torch.slice_scatter, x, torch.ones(1, 6), 0, 4, 99)
    batch.add("slice of nothing", torch.slice_scatter, x, torch.ones(0, 6), 0, 3, 1)
    batch.add("diagonal", torch.diagonal_scatter, x, torch.ones(4), 2)
    batch.add("diagonal below", torch.diagonal_scatter, x, torch.ones(3), -2)
    batch.add("strided", torch.as_strided_scatter, x, torch.ones(2, 2), (2, 2), (1, 12), 3)
    batch.check()


def test_copies_of_views():
    batch = Batch()
    x, z = torch.randn(2, 3, 4), torch.randn(2, 2, dtype=torch.complex64)
    batch.add("select", aten.select_copy.int, x, 1, -1)
    batch.add("slice", aten.slice_copy.Tensor, x, 2, -3, None, 2)
    batch.add("slice of nothing", aten.slice_copy.Tensor, x, 2, 3, 1)
    batch.add("split", aten.split_copy.Tensor, x, 2, 1)
    batch.add("reshape", aten._reshape_copy, x, [4, -1])
    batch.add("squeeze", aten.squeeze_copy.dims, x[:1, :, :1], [0, 2])
    batch.add("as float64", aten.view_copy.dtype, x, torch.float64)
    batch.add("as int16", aten.view_copy.dtype, x, torch.int16)
    batch.add("as real", aten.view_as_real_copy, z)
    batch.add("as complex", aten.view_as_complex_copy, x[..., :2].contiguous())
    batch.add("narrow", torch.narrow_copy, x, 1, -2, 1)
    batch.add("fresh", aten.lift_fresh_copy, x)
    batch.add("detached", aten.detach_copy, x)
    batch.check()


def test_repeat_interleave():
    batch = Batch()
    for counts in ([1, 2, 3], [0, 2, 0], [2], [0, 0, 4, 0]):
        repeats = torch.tensor(counts)
        batch.add(f"{counts}", torch.repeat_interleave, repeats, output_size=sum(counts))
        batch.add(f"{counts} int32", torch.repeat_interleave, repeats.int(), output_size=sum(counts))
    x = torch.randn(3, 2, requires_grad=True)
    repeats = torch.tensor([2, 0, 3])
    batch.add("of rows", lambda x, n: torch.repeat_interleave(x, n, 0, output_size=5), x, repeats, backward=True)
    batch.add("by a number", torch.repeat_interleave, x, 2, 1, backward=True)
    batch.check()


def test_triangles():
    batch = Batch()
    x = torch.randn(2, 3, 5)
    for diagonal in (-9, -1, 0, 2, 2**40):
        batch.add(f"tril {diagonal}", torch.tril, x, diagonal)
        batch.add(f"triu {diagonal}", torch.triu, x, diagonal)
    batch.check()


def test_cat_of_vectors_of_nothing():
    empty = torch.empty(0, device="xla")
    assert torch.cat([empty, empty], 1).shape == torch.cat([torch.empty(0)] * 2, 1).shape
