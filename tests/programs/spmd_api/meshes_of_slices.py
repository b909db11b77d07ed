"""Meshes of slices: run by test_spmd_api.py."""

from unittest import mock

import numpy as np
from raises import raises
from start import mesh

import torch_go_xla.distributed.spmd as xs
import torch_go_xla.runtime as xr
from torch_go_xla.distributed.spmd import mesh as meshes

assert xs.HybridMesh(ici_mesh_shape=(2, 4)).get_logical_mesh().tolist() == mesh.get_logical_mesh().tolist()
raises(ValueError, "Invalid dcn_mesh_shape", xs.HybridMesh, ici_mesh_shape=(2, 2), dcn_mesh_shape=(2, 1))
places = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0)]
slices = [{"name": f"TPU:{4 * s + i}", "slice_index": s, "coords": p} for s in (0, 1) for i, p in enumerate(places)]
with mock.patch.object(xr, "global_runtime_device_attributes", return_value=slices[::-1]):
    made = xs.HybridMesh(ici_mesh_shape=(2, 2), dcn_mesh_shape=(2, 1)).get_logical_mesh()
    assert made.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    made = xs.HybridMesh(ici_mesh_shape=(1, 4), dcn_mesh_shape=(2, 1)).get_logical_mesh()
    assert sorted(made[0].tolist()) == [0, 1, 2, 3] and made.shape == (2, 4)
    raises(ValueError, "Provide dcn_mesh_shape", xs.HybridMesh, ici_mesh_shape=(2, 4))
    raises(ValueError, "product of mesh_shape", xs.HybridMesh, ici_mesh_shape=(2, 4), dcn_mesh_shape=(2, 1))
# An axis of the mesh follows whole axes of the torus where it can, the last one first.
torus = np.arange(4 * 4 * 2).reshape(4, 4, 2)
assert (meshes.lay_on_torus(torus, (2, 16)) == torus.reshape(16, 2).T).all()
assert (meshes.lay_on_torus(torus, (4, 8)) == torus.transpose(1, 0, 2).reshape(4, 8)).all()
flat = meshes.lay_on_torus(np.arange(16).reshape(4, 4), (2, 2, 4))
assert sorted(flat.flatten().tolist()) == list(range(16)) and flat[0, 0].tolist() == [0, 4, 8, 12]
raises(ValueError, "cannot be a mesh", meshes.lay_on_torus, torus, (3, 2))
