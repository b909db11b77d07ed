"""Indices that are values of tensors and out of range: writes leave them out, reads take the nearest element."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import torch_go_xla  # noqa: F401 (makes the device)

N = 5
# From just outside to what is inside again in 32 bits.
OUTSIDE = [N, N + 3, -N - 1, 1 << 31, 1 << 32, (1 << 32) + 1, -(1 << 31), -(1 << 32), -(1 << 32) + 2, (1 << 63) - 1]
OUTSIDE += [-(1 << 63)]

Write = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def rows(index: torch.Tensor) -> torch.Tensor:
    return index[:, None].expand(-1, 2)


def setitem(x: torch.Tensor, i: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[i] = s
    return x


WRITES: dict[str, Write] = {
    "scatter": lambda x, i, s: x.scatter(0, rows(i), s),
    "scatter of a value": lambda x, i, s: x.scatter(0, rows(i), 7.0),
    "scatter_add": lambda x, i, s: x.scatter_add(0, rows(i), s),
    "scatter_reduce": lambda x, i, s: x.scatter_reduce(0, rows(i), s, "mean", include_self=False),
    "index_add": lambda x, i, s: x.index_add(0, i, s),
    "index_copy": lambda x, i, s: x.index_copy(0, i, s),
    "index_reduce": lambda x, i, s: x.index_reduce(0, i, s, "amax"),
    "index_fill": lambda x, i, s: x.index_fill(0, i, 3.0),
    "index_put": lambda x, i, s: x.index_put((i,), s),
    "index_put, added": lambda x, i, s: x.index_put((i,), s, accumulate=True),
    "index_put of two": lambda x, i, s: x.index_put((i, torch.zeros_like(i)), s[:, 0]),
    "put": lambda x, i, s: x[:, 0].contiguous().put(i, s[:, 0]),
    "setitem": setitem,
    "gradient of embedding": lambda x, i, s: torch.ops.aten.embedding_dense_backward(s, i, N, -1, False),
    "one row": lambda x, i, s: x.index_copy(0, i[1:2], s[1:2]) if len(i) == 3 else x,
}


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("name", WRITES)
def test_writes_leave_them_out(name: str) -> None:
    write, x, source = WRITES[name], torch.arange(2.0 * N).view(N, 2), 100 + torch.arange(6.0).view(3, 2)
    inside = torch.tensor([0, 2])
    for outside in OUTSIDE:
        index = torch.tensor([1, outside, 3])
        want = write(x, index[inside], source[inside])
        assert torch.equal(write(x.to("xla"), index.to("xla"), source.to("xla")).cpu(), want), outside


READS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "gather": lambda x, i: x.gather(0, rows(i)),
    "index_select": lambda x, i: x.index_select(0, i),
    "embedding": lambda x, i: torch.nn.functional.embedding(i, x),
}
COUNTED: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "index": lambda x, i: x[i],
    "take": lambda x, i: x[:, 0].contiguous().take(i),
}


@pytest.mark.parametrize("name", [*READS, *COUNTED])
def test_reads_take_the_nearest(name: str) -> None:
    read, x = {**READS, **COUNTED}[name], torch.arange(2.0 * N).view(N, 2)
    for outside in OUTSIDE:
        nearest = torch.tensor([1, 0 if outside < 0 else N - 1])
        assert torch.equal(read(x.to("xla"), torch.tensor([1, outside], device="xla")).cpu(), read(x, nearest)), outside


@pytest.mark.parametrize("rank", [255, 256, 257, 600])
def test_ranks(rank: int) -> None:
    if rank <= 255:
        assert (torch.ones([1] * rank, device="xla") + 1).sum().item() == 2
    else:
        with pytest.raises(RuntimeError, match=f"a tensor has {rank} dimensions; xla tensors have at most 255"):
            torch.ones([1] * rank, device="xla") + 1


def test_sizes_that_are_0_in_32_bits() -> None:
    """XLA:CPU divides by such a size as it compiles what counts so far."""
    for n in (1 << 36, 1 << 40):
        x = torch.arange(n, device="xla")
        torch_go_xla.sync()
        with pytest.raises(torch_go_xla.OutOfMemoryError):
            x[:3].cpu()
