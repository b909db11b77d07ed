"""Which devices hold which tile of a tensor, and the picture of it that a notebook shows."""

from __future__ import annotations

import torch

from . import html, partitioning
from .op_sharding import OpSharding, ShardingType


def tiles(sharding: str) -> list[list[list[int]]]:
    """Return the devices that hold each tile, or a tile behind it, of the first two dimensions.

    Args:
        sharding: in GSPMD's form; "" for a tensor that is not sharded.
    """
    parsed = OpSharding.parse(sharding or "{replicated}")
    rows, columns, devices = 1, 1, list(parsed.devices)
    if parsed.type is not ShardingType.MAXIMAL:
        if parsed.tiles:
            rows, columns = (*parsed.tiles, 1)[:2]
        else:
            devices = list(range(partitioning.num_devices()))  # of all processes
    each = len(devices) // (rows * columns)
    held = [devices[i * each : (i + 1) * each] for i in range(rows * columns)]
    return [held[i * columns : (i + 1) * columns] for i in range(rows)]


def picture(t: torch.Tensor) -> str:
    """Return which devices hold which tile of a plain tensor, as HTML."""
    sharding = partitioning.sharding_of(t)
    kind = str(t.dtype).removeprefix("torch.")
    rows = ([(ids[0], f"device {', '.join(map(str, ids))}") for ids in row] for row in tiles(sharding))
    return html.grid(rows, f"{list(t.shape)} {kind}, {sharding or 'on every device'}")
