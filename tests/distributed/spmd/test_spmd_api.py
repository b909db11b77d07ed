"""torch_xla's interface to SPMD, on 8 devices of one process. The oracle is torch on one CPU."""

from __future__ import annotations

import pytest

EIGHT = {"CPU_NUM_DEVICES": "8"}


def test_meshes(ok) -> None:
    ok(
        "spmd_api/meshes.py",
        **EIGHT,
    )


def test_shardings_of_torch_xla(ok) -> None:
    ok(
        "spmd_api/shardings_of_torch_xla.py",
        **EIGHT,
    )


def test_meshes_of_slices(ok) -> None:
    ok(
        "spmd_api/meshes_of_slices.py",
        **EIGHT,
    )


def test_marks(ok) -> None:
    ok(
        "spmd_api/marks.py",
        **EIGHT,
    )


def test_shards(ok) -> None:
    ok(
        "spmd_api/shards.py",
        **EIGHT,
    )


def test_gradients(ok) -> None:
    ok(
        "spmd_api/gradients.py",
        **EIGHT,
    )


def test_seeing_shardings(ok) -> None:
    out = ok(
        "spmd_api/seeing_shardings.py",
        **EIGHT,
    )
    for device in range(8):
        assert f"CPU {device}" in out
    for text in ("CPU [0, 1, 2, 3] ", "CPU [4, 5, 6, 7]", "CPU [0, 1, 2, 3, 4, 5, 6, 7]", "CPU [3]"):
        assert text in out


@pytest.mark.longer
def test_marks_in_compiled_functions(ok) -> None:
    ok(
        "spmd_api/marks_in_compiled_functions.py",
        **EIGHT,
    )


def test_manual_regions(ok) -> None:
    ok(
        "spmd_api/manual_regions.py",
        **EIGHT,
    )


def test_with_dtensors(ok) -> None:
    ok(
        "spmd_api/with_dtensors.py",
        **EIGHT,
    )
