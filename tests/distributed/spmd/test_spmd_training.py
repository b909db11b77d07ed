"""Training with torch_xla's SPMD interface on 8 devices of one process: loaders, linear layers, FSDPv2."""

from __future__ import annotations

from test_spmd_api import EIGHT


def test_loaders(ok) -> None:
    ok(
        "spmd_api/loaders.py",
        **EIGHT,
    )


def test_linear_layers(ok) -> None:
    ok(
        "spmd_api/linear_layers.py",
        **EIGHT,
    )


def test_optimization_barrier(ok) -> None:
    ok(
        "spmd_api/optimization_barrier.py",
        **EIGHT,
    )


def test_fsdp(ok) -> None:
    ok(
        "spmd_api/fsdp.py",
        **EIGHT,
    )


def test_checkpoints_by_step(ok, tmp_path) -> None:
    ok("spmd_api/checkpoints_by_step.py", tmp_path, **EIGHT)
