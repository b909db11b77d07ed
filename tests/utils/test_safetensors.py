"""safetensors files of xla tensors."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch as library
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


def header(text: bytes) -> dict[str, dict[str, Any]]:
    return json.loads(text[8 : 8 + int.from_bytes(text[:8], "little")])


def test_the_file_is_that_of_the_library(tmp_path: Path) -> None:
    """The same names, types and shapes, for every type that the library knows, and it reads the same values."""
    path = tmp_path / "a.safetensors"
    saved = {
        str(d): torch.arange(6, dtype=torch.uint8).repeat(d.itemsize).view(d) for d in xst._TYPES if d != torch.bool
    }
    saved |= {
        "bool": torch.tensor([True, False]),
        "scalar": torch.tensor(3),
        "none": torch.empty(0, 3),
        'é"\n': torch.ones(1),
    }
    for state in (
        {},
        saved,
        {name: t.to("xla") if t.dtype != torch.float8_e8m0fnu else t for name, t in saved.items()},
    ):
        for metadata in (None, {"format": "pt", "é": "\u2028"}):
            xst.save_file(state, path, metadata)
            on_cpu = {name: t.cpu() for name, t in state.items()}
            ours, theirs = header(path.read_bytes()), header(library.save(on_cpu, metadata))
            for entries in (ours, theirs):  # the order of tensors of one size is free
                for name, t in on_cpu.items():
                    start, end = entries[name].pop("data_offsets")
                    assert end - start == t.nbytes and start % t.itemsize == 0
            assert ours == theirs
            loaded = load_file(path)
            for name, t in on_cpu.items():
                assert loaded[name].dtype == t.dtype and loaded[name].shape == t.shape
                assert torch.equal(loaded[name].reshape(-1).view(torch.uint8), t.reshape(-1).view(torch.uint8)), name
    known = {d for d in vars(torch).values() if isinstance(d, torch.dtype)} & library._SIZE.keys()
    assert known - xst._TYPES.keys() <= {torch.float4_e2m1fn_x2}, "the library knows more types"


def test_what_the_library_refuses_is_refused(tmp_path: Path) -> None:
    x = torch.arange(12.0)
    wrong = [
        {"a": x, "b": x[2:]},
        {"t": x.view(3, 4).t()},
        {"x": 1},
        {1: x},
        {"x": x.to_sparse()},
        {"x": x.to(torch.complex128)},
    ]
    for state in wrong:
        with pytest.raises((ValueError, RuntimeError, TypeError, KeyError)) as theirs:
            library.save(state)
        with pytest.raises(ValueError if theirs.type is KeyError else theirs.type):
            xst.save_file(state, tmp_path / "a.safetensors")
    with pytest.raises(TypeError):
        xst.save_file({"x": x}, tmp_path / "a.safetensors", {"x": 1})
    xst.save_file({"a": x[:5], "b": x[5:]}, tmp_path / "a.safetensors")
    assert load_file(tmp_path / "a.safetensors")["b"].tolist() == list(range(5, 12))


def test_mode_and_lock_are_of_the_file_that_stays(tmp_path: Path) -> None:
    path, mask = tmp_path / "a.safetensors", os.umask(0o022)
    try:
        xst.save_file({"x": torch.ones(2, device="xla")}, path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o644
        path.chmod(0o640)
        xst.save_file({"x": torch.ones(2, device="xla")}, path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640 and os.listdir(tmp_path) == ["a.safetensors"]
    finally:
        os.umask(mask)


def test_the_host_has_no_copy_of_the_state(ok, tmp_path: Path) -> None:
    """160 MB in 20 tensors."""
    grown = int(ok("safetensors/memory.py", tmp_path / "a.safetensors"))
    assert grown <= 16, f"{grown} MB more than before"
