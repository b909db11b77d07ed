"""The core as this package sees it. Every call that leaves Python goes through `native()`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Protocol

import torch

from .._vocabulary import SCALAR_TYPES


class Core(Protocol):
    """What `install` needs. Handles name storages; addresses are host memory that the caller keeps alive."""

    fast: Any  # the module _goxlafast

    @property
    def opened(self) -> bool:
        """Whether the device is open."""

    def op_table(self) -> Sequence[tuple[str, str]]:
        """Name and schema of every row, in the order of their numbers."""

    def device_count(self) -> int:
        """Return the number of devices; opens the client."""

    def upload(self, handle: int, address: int, nbytes: int, scalar_type: int, sizes: Sequence[int]) -> None:
        """Fill a storage from a dense array; the memory is free on return."""

    def borrow(self, handle: int, owner: Any, address: int, scalar_type: int, sizes: Sequence[int]) -> None:
        """Fill a storage from a dense array that may stay where it is; ``owner`` is kept while it is read there."""

    def fetch(self, handle: int, address: int, nbytes: int) -> None:
        """Copy a whole storage to host memory, after a sync if its value is not computed yet."""

    def snapshot(self, handles: Sequence[int]) -> int:
        """Sync the devices of some storages and hold their values of this moment; return its number."""

    def fetch_snapshot(self, snapshot: int, place: int, address: int, nbytes: int) -> None:
        """Copy a value that a snapshot holds to host memory."""

    def snapshot_address(self, snapshot: int, place: int) -> int:
        """Return where a value lies in host memory, good while the snapshot lives; 0 if it does not."""

    def drop_snapshot(self, snapshot: int) -> None:
        """Let go of the values of a snapshot."""

    def capture(self, arguments: Sequence[int], results: Sequence[int], state: bool) -> tuple[int, int]:
        """Make what is recorded repeatable; return its number, 0 if it cannot be, and a digest of its numbers."""

    def drop_replay(self, id: int) -> None:
        """Forget a captured computation."""

    def placeholder(self, handle: int, scalar_type: int, sizes: Sequence[int]) -> None:
        """Make a storage stand for an argument of a function that is being traced, a dense array."""

    def function(self, arguments: Sequence[int], results: Sequence[int]) -> str:
        """Keep what is recorded of some storages, as a function of others, for control flow; return its name."""

    def export(self, arguments: Sequence[int], results: Sequence[int]) -> str:
        """Return what is recorded of some storages, as a function of others, as a StableHLO module."""

    def set_precision(self, name: str) -> None:
        """Set the operand precision of matrix products and convolutions: default, high or highest."""

    def sync(self, device: int, mark: bool = False) -> None:
        """Compute what is recorded for a device."""

    def syncs(self) -> int:
        """Return how many graphs were synced."""

    def wait(self, device: int) -> None:
        """Wait until a device has done everything."""

    def copy(self, to: int, source: int) -> None:
        """Fill a storage from one of another device."""

    def use_spmd(self) -> None:
        """Make one device of all devices of the process."""

    def partitions(self) -> int:
        """Return the number of devices that SPMD spreads programs over, 0 without SPMD."""

    def torch_kernels(self) -> bool:
        """Tell whether programs may call torch's own CPU kernels."""

    def annotate(self, handle: int, scalar_type: int, sizes: Sequence[int], sharding: str) -> None:
        """Give the value of a storage a sharding; "" takes it away."""

    def shards(self, handle: int, wait: bool = True) -> list[dict[str, Any]]:
        """Return what each device holds of the value of a storage: device, replica, start, size."""

    def fetch_shard(self, handle: int, device: int, address: int) -> None:
        """Copy what a device holds of the value of a storage to host memory."""

    def set_shards(self, handle: int, addresses: Sequence[int]) -> None:
        """Replace what each device holds of the value of a storage."""

    def exchange(self, tag: str, value: str, members: Sequence[int]) -> list[str]:
        """Give some processes of the job a text and return those of all."""

    def describe(self, handle: int) -> dict[str, Any]:
        """Return the state of a storage."""

    def sync_all(self, device: int, wait: bool) -> None:
        """Compute what is recorded for a device, -1 for all."""

    def new_generator(self, device: int) -> int:
        """Return the number of a new generator for a device."""

    def drop_generator(self, generator: int) -> None:
        """Forget a generator that new_generator made."""

    def manual_seed(self, generator: int, seed: int) -> None:
        """Seed a generator; a device's own has the device's number."""

    def get_rng_state(self, generator: int) -> bytes:
        """Return the state of a generator: seed and draws, 8 bytes each."""

    def set_rng_state(self, generator: int, state: bytes) -> None:
        """Restore the state of a generator."""

    def set_default_dtype(self, scalar_type: int) -> None:
        """Follow torch.set_default_dtype."""

    def count(self, name: str) -> None:
        """Add one to a counter of the metrics."""


_core: Core | None = None


def use(core: Core) -> None:
    """Set the core of the process."""
    global _core
    _core = core


def native() -> Core:
    """Return the core of the process."""
    if _core is None:
        raise RuntimeError("torch_go_xla has not been installed in this process")
    return _core


# c10::ScalarType numbers of the types that the device has tensors of.
SCALAR_TYPE: dict[torch.dtype, int] = {getattr(torch, name): number for name, number in SCALAR_TYPES.items()}

# The library of torch's CPU kernels and of its stable C interface, which the process has loaded.
TORCH_LIBRARY = os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so")

# Objects that stand for a number in a schema: dtypes, layouts (c10::Layout), memory formats (c10::MemoryFormat).
ENUMS: dict[Any, int] = {
    **SCALAR_TYPE,
    torch.strided: 0,
    torch.contiguous_format: 0,
    torch.preserve_format: 1,
    torch.channels_last: 2,
    torch.channels_last_3d: 3,
}


def scalar_type(dtype: torch.dtype) -> int:
    """Return the number of a dtype; TypeError if the device has no tensors of it."""
    number = SCALAR_TYPE.get(dtype)
    if number is None:
        raise TypeError(f"xla tensors cannot have dtype {dtype}")
    return number


def device_index(device: Any) -> int:
    """Return the index of a device: None is the current one; a number, a string or a torch.device."""
    if device is None:
        return int(native().fast.current_device())
    if isinstance(device, int):
        return device
    device = torch.device(device)
    if device.type != "xla":
        raise ValueError(f"expected an xla device, got {device}")
    return int(native().fast.current_device()) if device.index is None else int(device.index)


def is_xla(x: object) -> bool:
    """Tell whether x is a tensor on the device."""
    return isinstance(x, torch.Tensor) and x.device.type == "xla"
