"""Sparse tensors that are copied, saved and sent."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import torch_go_xla.core.xla_model as xm
import torch_go_xla.utils.serialization as xser
from torch_go_xla._backend.sparse_parts import parts

LAYOUTS: dict[str, Callable[[], torch.Tensor]] = {
    "coo": lambda: torch.sparse_coo_tensor([[2, 0, 2]], [1.0, 2.0, 3.0], (4,)),
    "coalesced": lambda: torch.eye(3).to_sparse(),
    "csr": lambda: torch.eye(3).to_sparse_csr(),
    "csc": lambda: torch.eye(3).to_sparse_csc(),
    "bsr": lambda: torch.eye(4).to_sparse_bsr((2, 2)),
}


def same(x: torch.Tensor, y: torch.Tensor) -> bool:
    assert (x.layout, x.shape, x.dtype) == (y.layout, y.shape, y.dtype)
    if x.is_sparse:
        assert x.is_coalesced() == y.is_coalesced()
    return all(torch.equal(a.cpu(), b.cpu()) for a, b in zip(parts(x), parts(y), strict=True))


@pytest.mark.parametrize("name", LAYOUTS)
def test_copies(name: str) -> None:
    want = LAYOUTS[name]()
    x = want.to("xla")
    deep = copy.deepcopy({"a": x, "b": x})
    assert deep["a"] is deep["b"] and deep["a"].device.type == "xla" and same(deep["a"], want)
    parts(deep["a"])[-1].zero_()
    assert same(x, want)
    other = pickle.loads(pickle.dumps(x))
    assert other.device.type == "xla" and same(other, want)
    assert same(xm._maybe_convert_to_cpu([x])[0], want)


@pytest.mark.parametrize("location", ["cpu", "xla"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_saves(name: str, location: str, tmp_path: Path) -> None:
    want = LAYOUTS[name]()
    values = torch.ones(3, device="xla")
    state = {"x": want.to("xla") * 2, "v": values, "tied": values}
    file = io.BytesIO()
    torch.save(state, file)
    xm.save(state, tmp_path / "a.pt")
    xser.save(state, tmp_path / "b.pt")
    loads = (
        torch.load(io.BytesIO(file.getvalue()), map_location=location),
        torch.load(tmp_path / "a.pt", map_location=location),
        xser.load(tmp_path / "b.pt", map_location=location),
    )
    for loaded in loads:
        assert loaded["x"].device.type == location and same(loaded["x"], want * 2)
        assert loaded["v"].data_ptr() == loaded["tied"].data_ptr()


def test_a_module_with_a_sparse_buffer(tmp_path: Path) -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("adjacency", torch.eye(3).to_sparse())
            self.layer = torch.nn.Linear(3, 3)

    torch.manual_seed(0)
    model = Net().to("xla")
    assert model.adjacency.device.type == "xla" and model.adjacency.is_sparse
    xm.save(model.state_dict(), tmp_path / "a.pt")
    again = Net()
    again.load_state_dict(torch.load(tmp_path / "a.pt"))
    assert torch.equal(again.layer.weight, model.layer.weight.cpu()) and same(again.adjacency, model.adjacency)
    model.load_state_dict(again.state_dict())
    assert model.cpu().adjacency.device.type == "cpu"


def test_syncs_take_sparse_tensors() -> None:
    x = torch.eye(3).to_sparse().to("xla") * 2
    xm.unlazy([x])
    assert x.to_dense().sum().item() == 6
    with pytest.raises(RuntimeError, match="sharing a view"):
        xm.check_view_sharing([x, x._values()])
