"""Meshes of eight devices."""

from __future__ import annotations

import pytest
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

import torch_go_xla  # noqa: F401


@pytest.fixture(scope="module")
def mesh() -> DeviceMesh:
    return init_device_mesh("xla", (8,), mesh_dim_names=("tp",))


@pytest.fixture(scope="module")
def mesh_2d() -> DeviceMesh:
    return init_device_mesh("xla", (2, 4), mesh_dim_names=("dp", "tp"))
