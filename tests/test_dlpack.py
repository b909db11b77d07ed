"""Tensors handed to other libraries by DLPack: in place, of one moment, read-only."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch

import torch_go_xla


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
    torch_go_xla.live_bytes()
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
