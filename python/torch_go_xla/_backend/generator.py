"""Random generators of the device: ``torch.Generator("xla")``."""

from __future__ import annotations

import functools
import time
import weakref
from typing import Any, SupportsInt

import torch

from .core import device_index, native

NUMBERS: dict[int, int] = {}  # address of torch's generator -> number of the core's


def _drop(_: weakref.ref[Any], number: int) -> None:
    native().drop_generator(number)


class Generator(torch.Generator):
    """A generator of an xla device: a seed, and how many ops have drawn from it.

    To torch's C++ it is one of the CPU, seeded alike: ops that fall back to the CPU draw from that.
    """

    _number: int
    _device: torch.device

    def __new__(cls, device: Any = "xla") -> Generator:
        index = device_index(device)
        number = native().new_generator(index)
        self = super().__new__(cls)
        self._number, self._device = number, torch.device("xla", index)
        address = self._cdata  # type: ignore[attr-defined]
        NUMBERS[address] = number
        # Another generator may get the address, so that it must be free at once; see `when_gone` on why in C.
        free = weakref.ref(self, functools.partial(NUMBERS.pop, address))
        native().when_gone(self, _drop, free, number)
        return self.manual_seed(self.initial_seed())

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """The device that the generator draws for."""
        return self._device

    def manual_seed(self, seed: SupportsInt) -> Generator:
        """Set the seed, a number of 64 bits, and return the generator."""
        super().manual_seed(seed)  # type: ignore[arg-type]
        native().manual_seed(self._number, super().initial_seed())
        return self

    def seed(self) -> int:
        """Seed from the clock and return the seed."""
        return self.manual_seed(time.time_ns()).initial_seed()

    def initial_seed(self) -> int:
        """Return the seed."""
        return super().initial_seed()

    def get_state(self) -> torch.Tensor:
        """Return the seed and the number of draws, a ByteTensor of 16 elements."""
        return torch.frombuffer(bytearray(native().get_rng_state(self._number)), dtype=torch.uint8)

    def set_state(self, new_state: torch.Tensor) -> Generator:
        """Restore what get_state returned; RuntimeError for a tensor of another size."""
        state = bytes(new_state.cpu().contiguous().numpy())
        native().set_rng_state(self._number, state)
        super().manual_seed(int.from_bytes(state[:8], "little"))
        return self

    def clone_state(self) -> Generator:
        """Return a generator of its own in the same state."""
        return Generator(self._device).set_state(self.get_state())

    def get_offset(self) -> int:
        """Return how many ops have drawn since the seed was set."""
        return int.from_bytes(native().get_rng_state(self._number)[8:], "little")

    def set_offset(self, offset: int) -> Generator:
        """Set how many ops have drawn since the seed was set, and return the generator."""
        state = native().get_rng_state(self._number)
        native().set_rng_state(self._number, state[:8] + offset.to_bytes(8, "little"))
        return self

    def __reduce__(self) -> Any:
        return torch.Generator, (self._device,), (self.initial_seed(), self.get_offset(), self.get_state())

    def __setstate__(self, state: tuple[int, int | None, torch.Tensor]) -> None:
        self.set_state(state[2])


def make(device: Any = None) -> Any:
    """Return a generator of the device, NotImplemented for another device."""
    if device is None or torch.device(device).type != "xla":
        return NotImplemented
    return Generator(device)
