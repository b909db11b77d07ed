"""safetensors files of xla tensors."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import torch_go_xla.utils.safetensors as xst


def test_safetensors(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    base = torch.arange(12.0, device="xla")
    saved = {
        "half": base[:6].view(2, 3),
        "computed": base * 2,
        "bf16": torch.ones(3, dtype=torch.bfloat16).to("xla"),
        "scalar": torch.tensor(5).to("xla"),
        "empty": torch.empty(0, 3, device="xla"),
        "host": torch.ones(2),
    }
    xst.save_file(saved, path, metadata={"format": "pt"})
    for device in ("cpu", "xla"):
        loaded = load_file(path, device=device)
        assert loaded.keys() == saved.keys()
        for name, value in saved.items():
            assert loaded[name].device.type == device and loaded[name].dtype == value.dtype
            assert torch.equal(loaded[name].cpu(), value.cpu()), name
    for refused in ({"a": base, "b": base[2:]}, {"t": base.view(3, 4).t()}, {"x": 1}):
        with pytest.raises((RuntimeError, ValueError, AttributeError)):
            xst.save_file(refused, path)
        assert load_file(path).keys() == saved.keys() and os.listdir(tmp_path) == ["a.safetensors"]


MEMORY = """
import resource, torch, torch_go_xla
import torch_go_xla.utils.safetensors as xst
tensors = {f"p{i}": torch.full((2 << 20,), float(i), device="xla") for i in range(20)}
torch_go_xla.sync(wait=True)
xst.save_file({"p": tensors["p0"]}, PATH)
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
start = peak()
xst.save_file(tensors, PATH)
print(peak() - start)
"""


def test_the_host_has_no_copy_of_the_state(ok, tmp_path: Path) -> None:
    """160 MB in 20 tensors."""
    grown = int(ok(MEMORY.replace("PATH", repr(str(tmp_path / "a.safetensors")))))
    assert grown <= 16, f"{grown} MB more than before"
