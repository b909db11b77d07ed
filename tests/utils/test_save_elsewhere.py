"""Other ways to save and load: torch.distributed.checkpoint, and files that must not be trusted."""

from __future__ import annotations

import io
import pickle
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp

import torch_go_xla
import torch_go_xla.core.xla_model as xm


def training(device: str) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(torch.ones(2, 4, device=device)).sum().backward()
    optimizer.step()
    return model, optimizer


def state(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, object]:
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()["state"], "step": 5}


def flat(data: object) -> list[torch.Tensor]:
    return [t.cpu() for t in torch.utils._pytree.tree_leaves(data) if isinstance(t, torch.Tensor)]


@pytest.mark.parametrize("source", ["xla", "cpu"])
@pytest.mark.parametrize("target", ["xla", "cpu"])
def test_distributed_checkpoint(source: str, target: str, tmp_path: Path) -> None:
    """What was saved of one device is loaded into the tensors of another, in place."""
    saved = state(*training(source))
    dcp.save(saved, checkpoint_id=tmp_path / "a", no_dist=True)
    torch.manual_seed(2)
    loaded = state(*training(target))
    for t in torch.utils._pytree.tree_leaves(loaded):
        if isinstance(t, torch.Tensor):
            t.detach().zero_()
    weight = loaded["model"]["0.weight"]
    dcp.load(loaded, checkpoint_id=tmp_path / "a", no_dist=True)
    assert loaded["model"]["0.weight"] is weight and weight.device.type == target and loaded["step"] == 5
    for a, b in zip(flat(loaded), flat(saved), strict=True):
        assert torch.equal(a, b)


def test_asynchronous_distributed_checkpoint(ok, tmp_path: Path) -> None:
    out = ok("save_elsewhere/async_save.py", tmp_path)
    assert out.strip() == "[0.0, 1.0, 2.0, 3.0, 4.0, 5.0] [3.0, 4.0, 5.0, 6.0, 7.0, 8.0]"


class Hostile:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("the file ran code",)


def test_a_hostile_file_is_refused(capsys) -> None:
    file = io.BytesIO()
    xm.save({"x": torch.ones(1, device="xla"), "y": Hostile()}, file)
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError):
        torch.load(file, map_location="xla")
    assert capsys.readouterr().out == ""


def test_load_to_the_device() -> None:
    file = io.BytesIO()
    x = torch.arange(6.0, device="xla").view(2, 3)
    xm.save({"x": x, "row": x[1]}, file)
    for location in ("xla", "xla:0", {"cpu": "xla"}, torch.device("xla")):
        file.seek(0)
        loaded = torch.load(file, map_location=location)
        assert loaded["x"].is_xla
        loaded["x"].add_(1)
        torch_go_xla.sync()
        assert loaded["row"].tolist() == [4, 5, 6]
