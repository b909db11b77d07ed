"""What torch.distributed.checkpoint sees of a tensor with SPMD: the parts that the devices of this process hold.

A job of one process, and one without SPMD, has all of the tensor, and writes and reads it as one part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties
from torch.distributed.checkpoint.planner import TensorWriteData, WriteItem, WriteItemType

from ... import _job
from ..._backend import partitioning
from ..._backend.core import is_xla


def _chunk(region: Sequence[slice]) -> ChunkStorageMetadata:
    return ChunkStorageMetadata(
        offsets=torch.Size([s.start for s in region]), sizes=torch.Size([s.stop - s.start for s in region])
    )


def is_parted(t: torch.Tensor) -> bool:
    """Tell whether this process may have parts of a tensor that no other has."""
    return is_xla(t) and partitioning.is_spmd() and _job.current().world_size > 1


class _Parts:
    """The parts of a tensor: by their offsets, the chunk and the data."""

    def __init__(self, t: torch.Tensor) -> None:
        self._whole = None if is_parted(t) else t
        if self._whole is not None:
            chunks = [_chunk([slice(0, n) for n in t.shape])]
        else:
            self._tensor = partitioning.dense(t)
            # All processes compute the value here: later on, only one of them may ask for it.
            chunks = [_chunk(region) for region in partitioning.regions(self._tensor, wait=True)]
        self._held = chunks  # device by device
        self._chunks = {c.offsets: c for c in chunks if c.sizes.numel() or self._whole is not None}

    def chunks(self) -> list[ChunkStorageMetadata]:
        return list(self._chunks.values())


class Outgoing(_Parts):
    """The parts of a tensor that is saved. torch sees to it that only one process writes what several have."""

    def __init__(self, t: torch.Tensor) -> None:
        super().__init__(t)
        self._properties = TensorProperties.create_from_tensor(t)
        self._size = t.shape
        self._data: dict[torch.Size, torch.Tensor] | None = None

    def write_items(self, fqn: str) -> list[WriteItem]:
        """Return what there is to write."""
        kind = WriteItemType.SHARD if self._whole is None else WriteItemType.TENSOR
        return [
            WriteItem(
                index=MetadataIndex(fqn, chunk.offsets),
                type=kind,
                tensor_data=TensorWriteData(chunk=chunk, properties=self._properties, size=self._size),
            )
            for chunk in self.chunks()
        ]

    def copied(self) -> dict[torch.Size, torch.Tensor]:
        """Return the parts, on the CPU, as they are now or were when this was asked for first."""
        if self._data is None:
            self._data = {_chunk(s.index).offsets: s.data for s in partitioning.shards(self._tensor)}
        return self._data

    def __getitem__(self, offsets: torch.Size) -> torch.Tensor:
        """Return the part at some offsets."""
        return self.copied()[offsets] if self._whole is None else self._whole


class Incoming(_Parts):
    """The parts of a tensor that is loaded, on the CPU; when all are there they are put on the devices."""

    def __init__(self, t: torch.Tensor) -> None:
        super().__init__(t)
        if self._whole is None:
            if self._tensor is not t:
                raise RuntimeError(
                    "a view that is not all of its storage cannot be loaded in a job of several processes"
                )
            self._data = {c.offsets: torch.empty(c.sizes, dtype=t.dtype) for c in self._held}
            self._missing = sum(c.sizes.numel() for c in self.chunks())

    def __getitem__(self, offsets: torch.Size) -> torch.Tensor:
        """Return where the part at some offsets is to be copied to."""
        if self._whole is not None:
            return self._whole
        part = self._data[offsets].as_subclass(_Part)
        part.owner = self
        return part

    def arrived(self, count: int) -> None:
        """Note that some elements were copied."""
        self._missing -= count
        if self._missing == 0:
            partitioning.set_shards_(self._tensor, [self._data[c.offsets] for c in self._held])


class _Part(torch.Tensor):
    """A tensor that tells whose part it is when something is copied into it, or into a view of it."""

    owner: Incoming

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs)  # type: ignore[no-untyped-call]
        if isinstance(result, cls):
            result.owner = args[0].owner
        if func is torch.Tensor.copy_:
            args[0].owner.arrived(args[0].numel())
        return result


class Parted:
    """A tensor that torch.distributed.checkpoint writes and reads by parts."""

    _parts: Outgoing | Incoming

    def _logical(self) -> torch.Tensor:
        raise NotImplementedError

    def __create_write_items__(self, fqn: str, object: Any) -> list[WriteItem]:
        self._parts = Outgoing(self._logical())
        return self._parts.write_items(fqn)

    def __create_chunk_list__(self) -> list[ChunkStorageMetadata]:
        self._parts = Incoming(self._logical())
        return self._parts.chunks()

    def __get_tensor_shard__(self, index: MetadataIndex) -> torch.Tensor:
        logical = self._logical()
        return self._parts[index.offset or torch.Size([0] * logical.dim())]


class InParts(Parted, torch.Tensor):
    """A tensor of the device, which may be marked with a sharding: ``t.as_subclass(InParts)``."""

    def _logical(self) -> torch.Tensor:
        return self.as_subclass(torch.Tensor)


class Copied(InParts):
    """A tensor of which what is written was copied at the call of `copy_parts`."""

    def __create_write_items__(self, fqn: str, object: Any) -> list[WriteItem]:
        assert isinstance(self._parts, Outgoing)
        return self._parts.write_items(fqn)


def copy_parts(t: torch.Tensor) -> Copied:
    """Copy the parts of a tensor that this process holds, to be written later; all processes call it together."""
    outgoing = Outgoing(t)
    outgoing.copied()
    copied = t.as_subclass(Copied)
    copied._parts = outgoing
    return copied
