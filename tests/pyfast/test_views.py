"""Views and storages: torch's own views over storages of the core, against torch CPU."""

import gc
import random
import threading

import pytest
import torch

from torch_go_xla._backend.core import native

handle = native().fast.handle


def error_of(f):
    with pytest.raises(Exception) as e:
        f()
    return type(e.value), str(e.value)


BAD = {
    "view of a transposed tensor": lambda t: t.t().view(-1),
    "view of another size": lambda t: t.view(7),
    "two unknown sizes": lambda t: t.view(-1, -1),
    "an unknown size that does not divide": lambda t: t.view(4, -1),
    "a negative size": lambda t: t.view(-2, 3),
    "an ambiguous size": lambda t: t[:0].view(0, -1),
    "an unknown size of nothing": lambda t: t.view(0, -1),
    "as_strided out of bounds": lambda t: t.as_strided((2, 2), (9, 9)),
    "as_strided with a negative stride": lambda t: t.as_strided((1,), (-1,)),
    "as_strided with too few strides": lambda t: t.as_strided((1, 2), (1,)),
    "as_strided with a negative offset": lambda t: t.as_strided((1,), (1,), -1),
    "as_strided with a huge stride": lambda t: t.as_strided((3,), (1 << 62,)),
    "unfold of a dimension that is not there": lambda t: t.unfold(5, 1, 1),
    "unfold too large": lambda t: t.unfold(0, 9, 1),
    "select out of range": lambda t: t[5],
    "view_as_complex of a wrong size": lambda t: torch.view_as_complex(t),
    "view_as_real of a real tensor": lambda t: torch.view_as_real(t),
    "expand of a size": lambda t: t.expand(4, 3),
}


@pytest.mark.parametrize("what", BAD)
def test_errors_are_those_of_the_cpu(what):
    t = torch.arange(6.0).view(2, 3)
    assert error_of(lambda: BAD[what](t.to("xla"))) == error_of(lambda: BAD[what](t))


def random_view(t, rng):
    """Return a random view of t as a function, so that it can be taken of two tensors."""
    d = t.dim()
    choices = [lambda x: x.view(x.shape), lambda x: x.unsqueeze(0), lambda x: x.detach(), lambda x: x.view_as(x)]
    if d >= 1:
        i = rng.randrange(d)
        n = t.shape[i]
        a = rng.randrange(n + 1) if n else 0
        b = rng.randint(a, n) if n else 0
        step = rng.choice([1, 2, 3])
        choices += [
            lambda x: x.narrow(i, a, b - a),
            lambda x: x[(slice(None),) * i + (slice(a, b, step),)],
            lambda x: x.unfold(i, min(n, 2), step) if n else x,
            lambda x: x.squeeze(),
            lambda x: x.flatten() if x.is_contiguous() else x,
        ]
        if n:
            choices.append(lambda x: x.select(i, a % n))
            choices.append(lambda x: x.view(torch.int32))
    if d >= 2:
        p, q = rng.sample(range(d), 2)
        choices += [lambda x: x.transpose(p, q), lambda x: x.diagonal(0, p, q), lambda x: x.reshape(-1)]
        choices.append(lambda x: x.movedim(p, q))
    if 1 in t.shape:
        choices.append(lambda x: x.expand([2 if n == 1 else n for n in x.shape]))
    return rng.choice(choices)


@pytest.mark.parametrize("seed", range(60))
def test_random_views_of_views(seed):
    rng = random.Random(seed)
    ours, theirs = torch.arange(24.0).view(2, 3, 4).to("xla"), torch.arange(24.0).view(2, 3, 4)
    base, base_handle = ours, handle(ours)
    for _ in range(6):
        f = random_view(theirs, rng)
        try:
            want = f(theirs)
        except RuntimeError as e:
            assert error_of(lambda f=f, x=ours: f(x)) == (type(e), str(e))
            continue
        got = f(ours)
        assert (got.shape, got.stride(), got.storage_offset()) == (want.shape, want.stride(), want.storage_offset())
        if want.untyped_storage().data_ptr() == theirs.untyped_storage().data_ptr():
            assert handle(got) == handle(ours)
        ours, theirs = got, want
    assert torch.equal(ours.cpu(), theirs)
    assert handle(base) == base_handle
    if theirs.numel() and theirs.dtype == torch.float32 and 0 not in theirs.stride():
        pair = [x.select(0, 0) if x.dim() else x for x in (ours, theirs)]
        for x in pair:
            if not torch._debug_has_internal_overlap(theirs):
                x.mul_(3)
        assert torch.equal(ours.cpu(), theirs)


def test_a_view_is_a_view_for_autograd():
    x = torch.zeros(2, 3, device="xla", requires_grad=True)
    y = x * 1
    y.view(-1)[::2].mul_(4)
    y.sum().backward()
    assert x.grad.tolist() == [[4, 1, 4], [1, 4, 1]]
    assert y.view(6)._base is y


def test_views_in_inference_mode():
    """A view is a tensor for inference where what it shows is one."""
    seen = []
    for device in ("cpu", "xla"):
        x = torch.arange(12.0, device=device).view(3, 4)
        w = torch.nn.Parameter(x.clone())
        with torch.inference_mode():
            y = x * 1
            views = [
                v
                for t in (x, w, y)
                for v in (t[0], t.t(), t.view(-1)[2:], *t.chunk(2), t.detach()[1:], t.unfold(1, 2, 2))
            ]
            x[1].add_(1)
            x.view(-1)[5:].mul_(2)
            y[:, 1].zero_()
            w.view(2, 6)[0].fill_(3)
        with torch.no_grad():
            seen.append([(v.is_inference(), v._is_view(), v.stride(), v.storage_offset(), v.tolist()) for v in views])
        seen[-1] += [x._version, w._version, x.tolist()]
        with pytest.raises(RuntimeError, match="[Ii]nference tensor"):
            y[0].add_(1)
    assert seen[0] == seen[1]


def test_modification_in_place_is_seen_by_autograd():
    x = torch.ones(2, device="xla", requires_grad=True)
    y = x.exp()
    y.view(2).add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_complex_views():
    z = torch.zeros(2, dtype=torch.complex64, device="xla")
    r = torch.view_as_real(z)
    r[:, 1] = 3
    assert z.tolist() == [3j, 3j] and handle(r) == handle(z)
    assert torch.view_as_complex(torch.ones(2, 2, device="xla")).tolist() == [1 + 1j, 1 + 1j]


# ---- writes to what is read, and to what is there twice ----

OVERLAPS = {
    "a row on the next": lambda x: x[1:].add_(x[:-1]),
    "the transposed on itself": lambda x: x.add_(x.t()),
    "copy to a part": lambda x: x.view(16)[1:].copy_(x.view(16)[:-1]),
    "out= in an operand": lambda x: torch.add(x.view(16)[:4], x[1], out=x.view(16)[2:6]),
    "lerp_": lambda x: x.lerp_(x.t(), 0.5),
    "foreach": lambda x: torch._foreach_add_([x], [x.t()]),
    "itself": lambda x: x.mul_(x),
    "one half on the other": lambda x: x.view(16)[:8].add_(x.view(16)[8:]),
    "out= is an operand": lambda x: torch.add(x[0], x[1], out=x[0]),
    "zero_ of an expanded tensor": lambda x: x[0].expand(3, 4).zero_(),
    "fill_ of a column seen twice": lambda x: x[:, 1:2].expand(4, 3).fill_(5),
    "add_ to an expanded tensor": lambda x: x[0].expand(3, 4).add_(1),
    "fill_ of an expanded tensor by a tensor": lambda x: x[0].expand(3, 4).fill_(x[1, 1]),
}


@pytest.mark.parametrize("what", OVERLAPS)
def test_overlapping_writes(what):
    """Refused where torch refuses them, with its words, and done where it does them."""
    results = []
    for device in ("cpu", "xla"):
        x = torch.arange(16.0).view(4, 4).to(device)
        try:
            OVERLAPS[what](x)
        except RuntimeError as e:
            results.append((str(e), x.tolist()))
        else:
            results.append(x.tolist())
    assert results[0] == results[1]


def test_foreach_counts_the_writes_of_its_tensors():
    for device in ("cpu", "xla"):
        x, y = (torch.ones(2, device=device) for _ in range(2))
        torch._foreach_add_([x, y], 1)
        torch._foreach_mul_([x], [y])
        torch._foreach_neg([x, y])
        assert (x._version, y._version) == (2, 1)
        with pytest.raises(RuntimeError, match="more than one element"):
            torch._foreach_add_([x, y[:1].expand(2)], 1)
        assert (x._version, y._version) == (3, 1)  # the first was written, and a gradient that needs it must know


# ---- sizes and storages ----


def test_addresses_name_storages():
    x = torch.zeros(4, 4, device="xla")
    h = handle(x)
    assert x.data_ptr() == h == x.untyped_storage().data_ptr() == handle(x[2])
    assert x[2].data_ptr() == h + 32
    assert torch.zeros(1, device="xla").data_ptr() != h
    assert h >> 62 == 1 and h % (1 << 20) == 0


def test_is_full():
    full = native().fast.is_full
    x = torch.zeros(4, 4, device="xla")
    assert full(x) and full(x.view(16)) and full(x.unsqueeze(0))
    assert not full(x[1:]) and not full(x.t()) and not full(x[:, 0]) and not full(x.expand(2, 4, 4))
    with pytest.raises(RuntimeError, match="xla"):
        full(torch.zeros(2))
    with pytest.raises(TypeError):
        handle(3)


def test_resize():
    for device in ("cpu", "xla"):
        x = torch.arange(4.0).to(device)
        view = x.view(2, 2)
        x.resize_(2)
        assert x.tolist() == [0, 1] and view.tolist() == [[0, 1], [2, 3]]
        x.resize_(2, 4)
        assert x.shape == (2, 4) and x.view(-1)[:4].tolist() == [0, 1, 2, 3]
        x.fill_(7)
        assert view.tolist() == [[7, 7], [7, 7]]
        assert x.untyped_storage().nbytes() == 32
        x.resize_(0)
        assert x.numel() == 0
        c = torch.zeros(1, 2, 2, 2, device=device).resize_((1, 2, 2, 2), memory_format=torch.channels_last)
        assert c.stride() == (8, 1, 4, 2)
    for bad in (lambda t: t.resize_(-1), lambda t: t.resize_(2, memory_format=torch.preserve_format)):
        with pytest.raises(RuntimeError):
            bad(torch.zeros(2, device="xla"))


def test_set():
    x, y = torch.zeros(2, device="xla"), torch.arange(4.0, device="xla")
    x.set_(y)
    assert handle(x) == handle(y) and x.tolist() == [0, 1, 2, 3] and x.is_set_to(y)
    x.add_(1)
    assert y.tolist() == [1, 2, 3, 4]
    x.set_(y.untyped_storage(), 1, (2,), (2,))
    assert x.tolist() == [2, 4]
    x.set_(y.untyped_storage())
    assert x.shape == (4,)
    x.set_()
    assert x.numel() == 0 and handle(x) != handle(y)
    q = torch.ones(1, device="xla")
    q.data = y
    assert q.tolist() == [1, 2, 3, 4]


def test_storage_resize_to_nothing_and_back():
    x = torch.arange(4.0, device="xla")
    view, storage = x[1:3], x.untyped_storage()
    storage.resize_(0)
    assert storage.size() == 0 and view.untyped_storage().nbytes() == 0
    storage.resize_(16)
    assert storage.nbytes() == 16
    x.copy_(torch.tensor([5.0, 6.0, 7.0, 8.0]))
    assert view.tolist() == [6, 7]


def test_swap_tensors_and_share():
    x, y = torch.zeros(2, device="xla"), torch.ones(3, device="xla")
    torch.utils.swap_tensors(x, y)
    assert x.tolist() == [1, 1, 1] and y.tolist() == [0, 0]


def test_a_storage_dies_with_its_last_tensor():
    live = native().live_storages
    gc.collect()
    before = live()
    x = torch.zeros(3, device="xla")
    view, another = x[1:], x.detach()
    assert live() == before + 1
    del x, another
    assert live() == before + 1
    del view
    assert live() == before


def test_storages_die_in_other_threads_and_in_numbers():
    live = native().live_storages
    gc.collect()
    before = live()
    tensors = [torch.empty(2, device="xla") for _ in range(1000)]
    assert live() == before + 1000
    thread = threading.Thread(target=tensors.clear)
    thread.start()
    thread.join()
    for _ in range(100):  # enough calls for the kernels to hand over what is dead
        torch.empty(1, device="xla").add_(1)
    gc.collect()
    assert live() == before
