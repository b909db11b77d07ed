"""Ops whose result has a size that depends on values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import torch_go_xla
from torch_go_xla.debug import metrics

X = torch.tensor([[3, 0, 3, 7], [0, 1, 7, 3]])

OPS: dict[str, Callable[[torch.Tensor], Any]] = {
    "nonzero": torch.nonzero,
    "nonzero as a tuple": lambda x: torch.nonzero(x, as_tuple=True),
    "masked_select": lambda x: torch.masked_select(x, x > 1),
    "a mask as an index": lambda x: x[x > 1],
    "bincount": lambda x: torch.bincount(x[0]),
    "bincount with weights": lambda x: torch.bincount(x[0], weights=x[1].float(), minlength=9),
    "unique": lambda x: torch.unique(x, return_inverse=True, return_counts=True),
    "unique of columns": lambda x: torch.unique(x, dim=1, return_counts=True),
    "unique_consecutive": lambda x: torch.unique_consecutive(x.sort().values, return_counts=True),
}


def tensors(result: Any) -> list[torch.Tensor]:
    return [result] if isinstance(result, torch.Tensor) else list(result)


@pytest.mark.parametrize("kernels", [True, False], ids=["torch", "composed"])
@pytest.mark.parametrize("name", OPS)
def test_results_are_torchs(name: str, kernels: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not kernels:
        monkeypatch.setattr(type(torch_go_xla._core.core), "torch_kernels", lambda _: False)
    got, want = tensors(OPS[name](X.to("xla"))), tensors(OPS[name](X))
    for g, w in zip(got, want, strict=True):
        assert (g.device.type, g.dtype) == ("xla", w.dtype)
        assert g.stride() == w.stride() or not kernels
        assert torch.equal(g.cpu(), w)


def test_torchs_kernel_compiles_nothing() -> None:
    x = X.to("xla")
    torch_go_xla.sync(wait=True)
    before = metrics.counter_value("UncachedCompile") or 0
    assert torch.unique(x).tolist() == [0, 1, 3, 7]
    assert (metrics.counter_value("UncachedCompile") or 0) == before


def test_a_recorded_function_counts_anew() -> None:
    count = torch_go_xla.compile(lambda x: torch.nonzero(x))
    for k in range(4):
        x = (torch.arange(6) % 3 == k % 3).float().to("xla")
        torch_go_xla.sync()
        assert count(x).flatten().tolist() == [k % 3, 3 + k % 3]


def test_operands_of_two_devices_are_refused() -> None:
    with pytest.raises(RuntimeError):
        torch.bincount(X[0].to("xla"), weights=X[1].float()).cpu()
