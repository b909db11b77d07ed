"""Shardings as torch_xla's programs see them: a class and a list of devices in place of GSPMD's short form."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np


class ShardingType(IntEnum):
    """The form of a sharding; the numbers are those of OpSharding.Type in XLA.

    Example:
        >>> import torch_go_xla.distributed.spmd as xs
        >>> xs.ShardingType(3)
        <ShardingType.TILED: 3>
    """

    REPLICATED = 0
    MAXIMAL = 1
    TUPLE = 2
    TILED = 3
    MANUAL = 4
    PARTIAL = 5  # tiled, each tile on several devices
    UNKNOWN = 6


_TILED = re.compile(r"\{devices=\[([\d,]+)\](?:<=\[([\d,]+)\](?:T\(([\d,]+)\))?|([\d,]+))( last_tile_dim_replicate)?\}")
_MAXIMAL = re.compile(r"\{maximal device=(\d+)\}")


def _numbers(text: str) -> list[int]:
    return [int(n) for n in text.split(",")]


class OpSharding:
    """How a tensor lies on the devices: torch_xla's ``_XLAC.OpSharding``.

    Attributes:
        type: the form. One tile is REPLICATED.
        tiles: the number of tiles by dimension of the tensor; empty if it is not TILED or PARTIAL.
        devices: the devices tile by tile in row-major order, and for each tile those that hold it.
    """

    type: ShardingType
    tiles: tuple[int, ...]
    devices: tuple[int, ...]

    def __init__(
        self,
        tile_assignment: Sequence[Any],
        group_assignment: Sequence[Any],
        replication_groups: Sequence[Any],
        sharding_type: int | Sequence[int],
    ) -> None:
        """Make a sharding of torch_xla's arguments, in the first form or in the second.

        Args:
            tile_assignment: the devices as an array, one a tile; in the second form the numbers of tiles, and last
                that of the devices to each, if it is not 1.
            group_assignment: for PARTIAL, the number of a group of devices, as an array, one a tile; in the second
                form the sizes of the array of all devices.
            replication_groups: for PARTIAL, the devices of each group; in the second form the array's transposition.
            sharding_type: a ShardingType; in the second form a list, not empty if tiles are on several devices.
        """
        if not isinstance(sharding_type, int):
            tiles = list(tile_assignment)[:-1] if sharding_type else tile_assignment
            ids = np.arange(math.prod(group_assignment)).reshape(group_assignment).transpose(replication_groups)
            self._set_tiles(tiles, ids.flatten().tolist())
        elif sharding_type == ShardingType.TILED:
            assignment = np.array(tile_assignment)
            self._set_tiles(assignment.shape, assignment.flatten().tolist())
        elif sharding_type == ShardingType.PARTIAL:
            groups = np.array(group_assignment)
            self._set_tiles(groups.shape, [d for g in groups.flatten() for d in replication_groups[g]])
        else:
            devices = np.array(tile_assignment, dtype=int).flatten().tolist()
            self._set(ShardingType(sharding_type), (), devices)

    def _set(self, kind: ShardingType, tiles: Sequence[int], devices: Sequence[int]) -> None:
        self.type, self.tiles, self.devices = kind, tuple(tiles), tuple(devices)
        self._text = self._print()  # once: tensors are marked at each step, over thousands of devices

    def _set_tiles(self, tiles: Sequence[int], devices: Sequence[int]) -> None:
        count = math.prod(tiles)
        if count == 1:
            self._set(ShardingType.REPLICATED, (), ())
        else:
            kind = ShardingType.TILED if len(devices) == count else ShardingType.PARTIAL
            holders = np.sort(np.array(devices).reshape(count, -1))  # which copy is which makes no difference
            self._set(kind, tiles, holders.flatten().tolist())

    @classmethod
    def tiled(cls, tiles: Sequence[int], devices: Sequence[int]) -> OpSharding:
        """Return the sharding of the attributes `tiles` and `devices`."""
        made = cls.__new__(cls)
        made._set_tiles(tiles, devices)
        return made

    @classmethod
    def parse(cls, text: str) -> OpSharding:
        """Return the sharding of a text in any of GSPMD's forms; ValueError for another text."""
        if text in ("{replicated}", "{manual}"):
            return cls([], [], [], ShardingType[text[1:-1].upper()])
        if found := _MAXIMAL.fullmatch(text):
            return cls([int(found[1])], [], [], ShardingType.MAXIMAL)
        found = _TILED.fullmatch(text)
        if found is None:
            raise ValueError(f"cannot read the sharding {text!r}")
        tiles, sizes, order, listed, copies = found.groups()
        shape = _numbers(tiles)
        if listed:
            devices = _numbers(listed)
        else:
            ids = np.arange(math.prod(_numbers(sizes))).reshape(_numbers(sizes))
            devices = ids.transpose(_numbers(order) if order else None).flatten().tolist()
        return cls.tiled(shape[:-1] if copies else shape, devices)

    @property
    def copies(self) -> int:
        """The number of devices that hold each tile."""
        return len(self.devices) // math.prod(self.tiles)

    def __str__(self) -> str:
        return self._text

    def _print(self) -> str:
        if self.type is ShardingType.MAXIMAL:
            return f"{{maximal device={self.devices[0]}}}"
        if not self.tiles:
            return f"{{{self.type.name.lower()}}}"
        shape = [*self.tiles, self.copies] if self.copies > 1 else self.tiles
        text = f"devices=[{','.join(map(str, shape))}]{','.join(map(str, self.devices))}"
        return f"{{{text} last_tile_dim_replicate}}" if self.copies > 1 else f"{{{text}}}"

    def __repr__(self) -> str:
        return f"OpSharding({self})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OpSharding):
            return NotImplemented
        return (self.type, self.tiles, self.devices) == (other.type, other.tiles, other.devices)

    def __hash__(self) -> int:
        return hash((self.type, self.tiles, self.devices))
