"""What shares a storage agrees wherever it is read, after whatever torch can do to storages and views.

A case is a function of a device that returns tensors; it is run by torch on the CPU too, and compared in values,
aliases, strides, version counters and errors. `READS` are the ways to look.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Callable

import numpy
import pytest
import torch
from torch import Tensor

import torch_go_xla
import torch_go_xla.core.xla_model as xm


def count(device: str, *sizes: int) -> Tensor:
    return torch.arange(torch.Size(sizes).numel(), dtype=torch.float32, device=device).view(sizes)


# ---- what is done ----


def assigned_data(d: str) -> list[Tensor]:
    x, y = count(d, 6), count(d, 2, 2)
    view, old = x.view(2, 3), x.data
    x.data = y
    x.add_(10)
    view.mul_(2)
    return [x, y, view, old]


def exchanged_data(d: str) -> list[Tensor]:
    x, y = count(d, 3), count(d, 4)
    row = x[1:]
    x.data, y.data = y.data, x.data
    x.sub_(1)
    y.mul_(3)
    return [x, y, row]


def set_to_a_tensor(d: str) -> list[Tensor]:
    x, y = count(d, 2), count(d, 3, 4)
    old = x.view(2)
    x.set_(y.t()[1:3])
    x.add_(100)
    return [x, y, old.add_(1)]


def set_to_a_part(d: str) -> list[Tensor]:
    x, y = count(d, 2), count(d, 12)
    x.set_(y.untyped_storage(), 1, (2, 3), (5, 1))
    y.add_(1)
    return [x.mul_(2), y]


def resized(d: str) -> list[Tensor]:
    x = count(d, 6)
    view = x.view(2, 3)
    x.resize_(4).add_(1)
    y = count(d, 2, 2)
    flat = y.view(4)
    y.resize_(3, 2)[2] = 9
    return [x, view, y, flat.mul_(2)]


def emptied_and_back(d: str) -> list[Tensor]:
    x = count(d, 6)
    view, weight = x.view(2, 3), torch.nn.Parameter(x[2:])
    x.untyped_storage().resize_(0)
    torch_go_xla.sync()
    x.untyped_storage().resize_(24)
    with torch.no_grad():
        x.copy_(count(d, 6) + 5)
        weight[0] = -1
    return [x, view, weight.detach()]


def as_strided_in_place(d: str) -> list[Tensor]:
    x = count(d, 12)
    view = x.view(3, 4)
    x.as_strided_((2, 3), (6, 2), 1).neg_()
    return [x, view]


def windows_that_overlap(d: str) -> list[Tensor]:
    x = count(d, 6)
    windows = x.as_strided((4, 3), (1, 1))
    x[2] = 50
    return [windows, windows.t(), x, x.unfold(0, 2, 1)]


def refused_in_the_middle(d: str) -> list[Tensor]:
    x = count(d, 2, 3)
    wide = x[0].expand(4, 3)
    x.add_(1)
    with pytest.raises(RuntimeError, match="more than one element"):
        wide.add_(1)
    with pytest.raises(RuntimeError, match="must match the size"):
        x.mul_(count(d, 2))
    x[1].mul_(2)
    return [x, wide]


def bits(d: str) -> list[Tensor]:
    x = count(d, 4)
    words, halves = x.view(torch.int32), x.view(torch.int16)
    words[1] = words[3]
    halves[:2] = 0x40
    return [x, words, halves]


def complex_and_real(d: str) -> list[Tensor]:
    pairs = count(d, 3, 2)
    z = torch.view_as_complex(pairs)
    z.mul_(1j)
    torch.view_as_real(z)[:, 1].add_(7)
    z[1:].imag.neg_()
    return [pairs, z, z.real, z[2:]]


def lazy_conjugates(d: str) -> list[Tensor]:
    z = torch.view_as_complex(count(d, 3, 2))
    bar = z.conj()
    z.add_(1j)
    bar[:2].add_(2)
    bar.imag.mul_(3)
    return [z, bar, bar.imag, bar.t(), z.conj().imag[1:]]


def diagonals(d: str) -> list[Tensor]:
    x = count(d, 4, 4)
    x.diagonal(1).fill_(-1)
    x.t().diagonal(-2)[0] = 60
    below = x.diagonal(-1)
    x.add_(1)
    return [x, below.mul_(2)]


def windows_that_are_written(d: str) -> list[Tensor]:
    x = count(d, 9)
    windows = x.unfold(0, 3, 3)
    windows[:, 1] = 70
    windows.t()[2].neg_()
    return [x, windows]


def flipped(d: str) -> list[Tensor]:
    x = count(d, 2, 3)
    back = x.flip(1)
    x[:, :2].add_(back[:, 1:])
    return [x, back.mul_(2)]


def views_of_views(d: str) -> list[Tensor]:
    x = count(d, 2, 3, 4)
    a = x.permute(2, 0, 1)[1:]
    b = a.unfold(0, 2, 1).movedim(-1, 0)[0].unsqueeze(1)
    c = x.view(6, 4)[::2].narrow(1, 1, 2)
    c.add_(100)
    torch_go_xla.sync()
    a.select(2, 1).mul_(-1)
    return [x, a, b, c]


def two_writers(d: str) -> list[Tensor]:
    x = count(d, 8)
    even, low = x[::2], x[:4]
    even.add_(1)
    low.mul_(2)
    even.copy_(low.clone())
    torch_go_xla.sync()
    low.add_(even.clone())
    return [low, x, even]


def results_in_views(d: str) -> list[Tensor]:
    x, half = count(d, 3, 4), torch.zeros(4, dtype=torch.bfloat16, device=d)
    torch.add(x[0], x[1], out=x[2])
    torch.mul(x[0, :2], 2.5, out=half[1:3])
    x.t()[torch.tensor([0, 3]).to(d)] = 5
    x[:, 1].copy_(half[1:])
    return [x, half]


def changed_between_gradients(d: str) -> list[Tensor]:
    x = count(d, 6).requires_grad_()
    y = x * 2
    y.view(2, 3)[:, ::2].mul_(3)
    y.detach().view(-1)[1:2].zero_()
    (y * y.detach()).sum().backward()
    return [y.detach(), x.grad]


def gradients_that_are_views(d: str) -> list[Tensor]:
    flat = torch.zeros(6, device=d)
    a, b = (count(d, 3).requires_grad_() for _ in range(2))
    a.grad, b.grad = flat[:3], flat[3:]
    (a * 2 + b * b).sum().backward()
    torch_go_xla.sync()
    (a * b).sum().backward()
    return [flat, a.grad, b.grad]


def detached_in_place(d: str) -> list[Tensor]:
    x = count(d, 4).requires_grad_()
    y = x * 3
    y.detach_().add_(1)
    with torch.no_grad():
        x.view(2, 2).t().add_(1)
    return [y, x.detach()]


def deep_copies(d: str) -> list[Tensor]:
    x = count(d, 6)
    parts = [x, x[2:], x.view(2, 3).t().requires_grad_()]
    copies = copy.deepcopy(parts)
    copies[1].mul_(10)
    x.add_(1)
    return [*parts, *copies]


CASES = [
    assigned_data, exchanged_data, set_to_a_tensor, set_to_a_part, resized, emptied_and_back, as_strided_in_place,
    windows_that_overlap, refused_in_the_middle, bits, complex_and_real, lazy_conjugates, diagonals,
    windows_that_are_written, flipped, views_of_views, two_writers, results_in_views, changed_between_gradients,
    gradients_that_are_views, detached_in_place, deep_copies,
]  # fmt: skip


# ---- how it is looked at ----


def _plain(t: Tensor) -> Tensor:
    return t.detach().resolve_conj().resolve_neg()


def _saved(tensors: list[Tensor]) -> list[Tensor]:
    loaded: dict[int, Tensor] = {}
    for dtype in {t.dtype for t in tensors}:  # torch refuses a file of one storage in two types
        file = io.BytesIO()
        xm.save({i: t for i, t in enumerate(tensors) if t.dtype == dtype}, file)
        file.seek(0)
        loaded |= torch.load(file)
    return [_plain(loaded[i]) for i in range(len(tensors))]


def _one_synced(tensors: list[Tensor]) -> list[Tensor]:
    torch_go_xla._XLAC._xla_sync_multi([tensors[-1]])
    return [t.detach().cpu() for t in tensors]


def _exported(t: Tensor) -> Tensor:
    # numpy asks torch for a contiguous tensor without lazy bits; bfloat16 is none of its types
    t = _plain(t)
    t = t.float() if t.dtype == torch.bfloat16 else t
    return torch.from_numpy(numpy.from_dlpack(t.contiguous()).copy())


READS: dict[str, Callable[[list[Tensor]], list[Tensor]]] = {
    "cpu": lambda tensors: [t.detach().cpu() for t in tensors],
    "the last first": lambda tensors: [t.detach().cpu() for t in reversed(tensors)][::-1],
    "after a sync of one": _one_synced,
    "item": lambda tensors: [torch.tensor([x.item() for x in t.flatten()]).view(t.shape) for t in tensors],
    "as one": torch_go_xla._XLAC._xla_get_cpu_tensors,
    "save": _saved,
    "DLPack": lambda tensors: [_exported(t) for t in tensors],
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("case", CASES, ids=lambda f: f.__name__)
def test_what_shares_a_storage_agrees(case: Callable[[str], list[Tensor]], read: str) -> None:
    theirs, ours = case("cpu"), case("xla")
    for a, b in zip(theirs, ours, strict=True):
        assert (a.shape, a.stride(), a.storage_offset(), a.dtype) == (b.shape, b.stride(), b.storage_offset(), b.dtype)
        assert (a._version, a.is_conj(), a.is_neg(), a._is_view()) == (
            b._version,
            b.is_conj(),
            b.is_neg(),
            b._is_view(),
        )
    groups = [[t.untyped_storage()._cdata for t in tensors] for tensors in (theirs, ours)]
    assert [groups[0].index(s) for s in groups[0]] == [groups[1].index(s) for s in groups[1]]
    for a, b in zip(theirs, READS[read](ours), strict=True):
        torch.testing.assert_close(b, _plain(a), rtol=0, atol=0, equal_nan=True, check_dtype=read in ("cpu", "as one"))


# ---- what autograd refuses ----


def _loss_of_a_written_alias(d: str) -> None:
    x = count(d, 4).requires_grad_()
    y = x.exp()
    y.detach().view(2, 2)[0].add_(1)
    y.sum().backward()


def _another_shape(use: Callable[[Tensor, Tensor], Tensor]) -> Callable[[str], None]:
    def case(d: str) -> None:
        y = count(d, 6).requires_grad_() * 2
        view = y.view(2, 3)
        view.data = count(d, 4)
        use(view, y).sum().backward()

    return case


def _written(view: Tensor) -> Tensor:
    return view.add_(1)


REFUSED = {
    "an alias of what a gradient needs was written": _loss_of_a_written_alias,
    "data of another shape": _another_shape(lambda view, y: view * 1),
    "data of another shape, summed": _another_shape(lambda view, y: view),
    "data of another shape, beside the base": _another_shape(lambda view, y: (view * view).sum() + y.sum()),
    "data of another shape, written": _another_shape(lambda view, y: _written(view)),
    "one of several views": lambda d: (count(d, 4).requires_grad_() * 1).chunk(2)[0].add_(1),
    "a view made without gradients": lambda d: _written(_without_gradients(count(d, 4).requires_grad_() * 1)),
    "a leaf by a view": lambda d: count(d, 4).requires_grad_().view(2, 2)[0].zero_(),
    "set_ of a leaf": lambda d: count(d, 4).requires_grad_().set_(count(d, 2)),
    "storage of a non-leaf given away": lambda d: (count(d, 4).requires_grad_() * 1).resize_(2),
}


@torch.no_grad()
def _without_gradients(x: Tensor) -> Tensor:
    return x.view(2, 2)


@pytest.mark.parametrize("what", REFUSED)
def test_what_autograd_refuses(what: str) -> None:
    words = []
    for d in ("cpu", "xla"):
        try:
            REFUSED[what](d)
        except RuntimeError as e:
            words.append(str(e).partition("\n")[0].replace("xlaFloatType", "torch.FloatTensor"))
        else:
            words.append("no error")
    assert words[0] == words[1]
