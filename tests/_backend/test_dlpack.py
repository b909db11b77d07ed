"""Tensors handed to other libraries and taken from them by DLPack, in place."""

from __future__ import annotations

import gc
import time
import weakref

import numpy as np
import pytest
import torch

import torch_go_xla
import torch_go_xla.utils.dlpack as xdl


def test_export_is_in_place_and_keeps_its_value() -> None:
    x = torch.arange(12.0, device="xla").view(3, 4)
    first, second = torch.from_dlpack(x), torch.from_dlpack(x.t())
    assert first.data_ptr() == second.data_ptr(), "a copy was made"
    assert second.stride() == (1, 4) and torch.equal(second, torch.arange(12.0).view(3, 4).t())
    for _ in range(3):  # each step would write into the buffer that it replaces
        x.add_(1)
        torch_go_xla.sync(wait=True)
    assert first.sum().item() == 66 and x.sum().item() == 66 + 36


def test_a_given_buffer_is_not_taken_while_it_is_exported() -> None:
    x = torch.arange(4.0, device="xla")
    out = torch.from_dlpack(x)
    torch_go_xla._XLAC._set_buffer_donation(x, True)
    y = x + 1
    torch_go_xla.sync(wait=True)
    assert out.tolist() == x.tolist() == [0, 1, 2, 3] and y.tolist() == [1, 2, 3, 4]


def test_numpy() -> None:
    x = torch.arange(6, device="xla").view(2, 3)
    array = np.from_dlpack(x[:, 1:])
    assert array.tolist() == [[1, 2], [4, 5]] and not array.flags.writeable
    assert x.__dlpack_device__() == torch.ones(1).__dlpack_device__()


def test_the_memory_lives_as_long_as_it_is_used() -> None:
    gc.collect()  # what earlier tests have left in cycles
    before = torch_go_xla.live_bytes()
    x = torch.ones(1 << 16, device="xla")
    torch_go_xla.sync(wait=True)
    out = torch.from_dlpack(x)[5:]
    del x
    gc.collect()
    assert torch_go_xla.live_bytes() == before + (4 << 16) and out.sum().item() == (1 << 16) - 5
    del out
    gc.collect()
    assert torch_go_xla.live_bytes() == before


def test_capsules_and_copies() -> None:
    x = torch.arange(3.0, device="xla")
    for capsule in (torch.utils.dlpack.to_dlpack(x), x.__dlpack__(), x.__dlpack__(max_version=(1, 0), copy=True)):
        assert torch.utils.dlpack.from_dlpack(capsule).tolist() == [0, 1, 2]
    assert torch.from_dlpack(torch.empty(0, 3, device="xla")).shape == (0, 3)
    back = torch.from_dlpack(np.arange(4)).to("xla")
    assert back.tolist() == [0, 1, 2, 3]


def test_what_cannot_be_exported() -> None:
    x = torch.ones(2, device="xla")
    for refused in (x.clone().requires_grad_(), torch.ones(2, dtype=torch.complex64, device="xla").conj()):
        with pytest.raises(BufferError, match="Can't export"):
            refused.__dlpack__()
    with pytest.raises(BufferError, match="exported to the CPU"):
        x.__dlpack__(dl_device=(2, 0))
    with pytest.raises(TypeError, match="stream must be"):
        x.__dlpack__(stream=object())


# ---- taken ----


def address(x: torch.Tensor) -> int:
    return torch.from_dlpack(x).data_ptr()


def test_import_is_in_place() -> None:
    host = torch.arange(12.0).view(3, 4)
    for x in (torch.from_dlpack(host, device="xla"), xdl.from_dlpack(host), xdl.from_dlpack(host.__dlpack__())):
        assert x.is_xla and x.tolist() == host.tolist() and address(x) == host.data_ptr()
    part = torch.from_dlpack(host.t()[1:], device="xla:0")
    assert part.stride() == (1, 4) and torch.equal(part.cpu(), host.t()[1:]) and address(part) == host[0, 1:].data_ptr()
    again = torch.from_dlpack(x, device="xla")
    assert address(again) == host.data_ptr() and (again + 1).sum().item() == host.sum().item() + 12


@pytest.mark.parametrize("start", range(9))
def test_import_of_numpy_at_any_address(start: int) -> None:
    """What the compiler cannot read where it is, is copied, or refused if it must not be."""
    array = np.arange(4096, dtype=np.int32)[start:]
    x = torch.from_dlpack(array, device="xla")
    assert torch.equal(x.cpu(), torch.arange(start, 4096, dtype=torch.int32)) and (x * 2)[7].item() == 2 * (start + 7)
    if array.ctypes.data % 64 == 0:
        assert address(torch.from_dlpack(array, device="xla", copy=False)) == array.ctypes.data
    else:
        with pytest.raises(BufferError, match="allow a copy"):
            torch.from_dlpack(array, device="xla", copy=False)
    copied = torch.from_dlpack(array, device="xla", copy=True)
    array[:] = 0
    assert copied[1].item() == start + 1


@pytest.mark.parametrize("dtype", [torch.bool, torch.bfloat16, torch.int64, torch.complex64, torch.float64])
def test_import_of_types_and_edges(dtype: torch.dtype) -> None:
    for host in (torch.ones(65).to(dtype), torch.tensor(1).to(dtype), torch.empty(0, 3, dtype=dtype)):
        x = torch.from_dlpack(host, device="xla")
        assert x.dtype == dtype and x.shape == host.shape and torch.equal(x.cpu(), host)
    with pytest.raises(BufferError):
        xdl.from_dlpack(torch.ones(2, requires_grad=True))
    with pytest.raises(TypeError, match="xla tensors cannot have dtype"):
        xdl.from_dlpack(torch.ones(2, dtype=torch.complex32))


def test_the_device_never_writes_to_imported_memory() -> None:
    """Steps that write to the tensor, donate its buffer by themselves or by order: the host's memory stays."""
    host = torch.arange(1024.0)
    kept = host.clone()
    x = xdl.from_dlpack(host)
    view = x[10:20]
    for step in range(1, 4):
        view.add_(1)
        x.mul_(2)
        torch_go_xla.sync(wait=True)
        assert torch.equal(host, kept) and address(x) != host.data_ptr()
        assert x[0].item() == 0 and x[30].item() == 30 * 2**step
    y = xdl.from_dlpack(host)
    torch_go_xla._XLAC._set_buffer_donation(y, True)
    z = y + 1
    torch_go_xla.sync(wait=True)
    assert torch.equal(host, kept) and torch.equal(y.cpu(), kept) and torch.equal(z.cpu(), kept + 1)


def test_training_from_imported_weights() -> None:
    torch.manual_seed(0)
    data, weight = torch.randn(16, 8), torch.randn(8, 8)
    kept = weight.clone()
    ours, theirs = torch.nn.Parameter(xdl.from_dlpack(weight)), torch.nn.Parameter(kept.clone())
    for p, x in ((ours, xdl.from_dlpack(data)), (theirs, data)):
        optimizer = torch.optim.SGD([p], lr=0.1, momentum=0.9)
        for _ in range(4):
            optimizer.zero_grad()
            (x @ p).square().mean().backward()
            optimizer.step()
            torch_go_xla.sync()
    torch.testing.assert_close(ours.detach().cpu(), theirs.detach())
    assert torch.equal(weight, kept)


class Owner(np.ndarray):
    """An array that can be watched."""


def test_imported_memory_is_kept_as_long_as_it_is_read() -> None:
    array = torch.arange(float(1 << 16)).numpy().view(Owner)  # aligned, so that it is not copied
    gone = weakref.ref(array)
    x = torch.from_dlpack(array, device="xla")
    y = x * 2  # recorded
    del array, x
    gc.collect()
    assert gone() is not None and y[3].item() == 6
    out = torch.from_dlpack(y[:2])
    del y
    for _ in range(200):  # the plugin tells when it is done, and the next sync takes note
        torch_go_xla.sync()
        gc.collect()
        if gone() is None:
            break
        time.sleep(0.01)
    assert gone() is None and out.tolist() == [0, 2]
