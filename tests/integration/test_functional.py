"""Tensors under functionalization: accepted where plain ones are, with the same values."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.functional_tensor import FunctionalTensor, FunctionalTensorMode

import torch_go_xla
import torch_go_xla.core.xla_model as xm

_XLAC = torch_go_xla._XLAC


def write(x: torch.Tensor) -> torch.Tensor:
    x.view(3, 1)[0].add_(5)
    return x


def plain(x: torch.Tensor) -> torch.Tensor:
    return write(x)


def wrapped(x: torch.Tensor) -> torch.Tensor:
    w = torch._to_functional_tensor(x)
    torch._enable_functionalization(reapply_views=True)
    try:
        return write(w)
    finally:
        torch._disable_functionalization()


def subclass(x: torch.Tensor) -> torch.Tensor:
    with FunctionalTensorMode():
        return write(FunctionalTensor.to_functional(x))


def saved(w: torch.Tensor) -> torch.Tensor:
    file = io.BytesIO()
    xm.save({"w": w, "again": [w]}, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True)
    assert loaded["w"].untyped_storage().data_ptr() == loaded["again"][0].untyped_storage().data_ptr()
    return loaded["w"]


def read(w: torch.Tensor) -> torch.Tensor:
    return _XLAC._xla_get_cpu_tensors([w])[0]


def after(step: Callable[[torch.Tensor], object]) -> Callable[[torch.Tensor], torch.Tensor]:
    def use(w: torch.Tensor) -> torch.Tensor:
        step(w)
        return read(w)

    return use


USES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "xm.save": saved,
    "_xla_get_cpu_tensors": read,
    "_functionalize_sync": after(lambda w: _XLAC._functionalize_sync([w])),
    "mark_step": after(lambda w: xm.mark_step()),
    "_xla_sync_multi": after(lambda w: _XLAC._xla_sync_multi([w])),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("make", [plain, wrapped, subclass])
def test_accepted_as_plain_ones(make: Callable[[torch.Tensor], torch.Tensor], use: str) -> None:
    value = USES[use](make(torch.zeros(3, device="xla")))
    assert type(value) is torch.Tensor and value.device.type == "cpu" and value.tolist() == [5, 0, 0]


def test_within_functionalize(tmp_path: Any) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        write(x)
        xm.mark_step()
        x.mul_(2)
        xm.save([x], tmp_path / "a.pt")
        x.add_(1)
        return x

    assert torch.func.functionalize(step)(torch.zeros(3, device="xla")).tolist() == [11, 1, 1]
    assert torch.load(tmp_path / "a.pt", weights_only=True)[0].tolist() == [10, 0, 0]
