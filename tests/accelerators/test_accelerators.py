"""What the vendors' compilers make of our programs for devices that are absent; `make aot` runs it.

It writes docs/accelerators.md with `--write` of `python -m tests.accelerators`, from the same rows.
"""

from __future__ import annotations

from typing import Any

import pytest

from .rows import PACKAGES, PLATFORMS, REFUSED, rows

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        PACKAGES is None, reason="TGX_VENDOR_PACKAGES does not say where the plugins are; make aot does"
    ),
]


def named(platform: str, group: str) -> dict[str, dict[str, Any]]:
    return {row["program"]: row for row in rows(platform, group)}


@pytest.mark.parametrize("platform", PLATFORMS)
def test_programs_of_one_device(platform: str) -> None:
    found = named(platform, "one")
    assert len(found) == 5
    for program, row in found.items():
        assert not row["host_transfers"] and not row["collectives"], program
        assert row["memory"]["Alias"] >= row.get("overwritten", 0), f"{program}: what it overwrites is not donated"
        assert not [target for target in row["custom_calls"] if "torch" in target or "lapack" in target], program


@pytest.mark.parametrize("platform", PLATFORMS)
def test_programs_over_eight_devices(platform: str) -> None:
    found = named(platform, "spmd")
    data, sharded = (found[f"training step on 8 devices, {how}"] for how in ("data parallel", "parameters sharded"))
    for row in (data, sharded):
        assert not row["host_transfers"] and row["memory"]["Alias"] >= row["overwritten"]
    assert "all-gather" not in data["collectives"] and data["collectives"].get("all-reduce")
    assert sharded["collectives"].get("all-gather")
    assert sharded["memory"]["Argument"] < data["memory"]["Argument"]


@pytest.mark.parametrize("platform", PLATFORMS)
def test_goldens(platform: str) -> None:
    """Each golden of the lowerings compiles, but for those that are named with a reason."""
    found = named(platform, "goldens")
    assert len(found) > 50
    wrong = {
        program: row.get("error", "it compiles now: take it off the list")
        for program, row in found.items()
        if ("error" in row) != (program in REFUSED[platform])
    }
    assert not wrong
    assert not set(REFUSED[platform]) - set(found)
