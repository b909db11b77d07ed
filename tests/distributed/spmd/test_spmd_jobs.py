"""SPMD over the devices of two processes, against one process on the CPU."""

from __future__ import annotations

import pathlib
import warnings

import jobs
import pytest
import torch
import torch.distributed.checkpoint as dcp

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("processes")]


def test_values_and_shards_of_two_processes() -> None:
    printed = jobs.check("spmd_jobs/values.py", 2, CPU_NUM_DEVICES="2")
    assert printed == ["told\n"] * 2


def test_training_over_two_processes_equals_one(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.pt"
    jobs.check("spmd_jobs/training.py", 2, CPU_NUM_DEVICES="2", CHECKPOINT=str(path))
    state = torch.load(path, weights_only=True)
    assert state["0.weight"].shape == (16, 6) and state["0.weight"].device.type == "cpu"
    parts = tmp_path / "model.pt.parts"
    assert len(list(parts.glob("*.distcp"))) == 2
    for step in range(3):
        sizes = [f.stat().st_size for f in (tmp_path / "model.pt.steps" / str(step)).glob("*.distcp")]
        assert len(sizes) == 2 and all(128 << 10 < size < 144 << 10 for size in sizes), "each has written its half"
    alone = {name: torch.zeros_like(value) for name, value in state.items()}
    with warnings.catch_warnings(action="ignore"):  # there is no process group
        dcp.load(alone, checkpoint_id=parts)
    for name, value in state.items():
        torch.testing.assert_close(alone[name], value, rtol=1e-5, atol=1e-6)
