"""The module ``torch.xla``: what torch expects of a device module, and what ``torch.cuda`` users look for.

Programs run in the order in which they were recorded, and torch sees no queue of ours. So streams and
events are trivial: everything is on the one stream of the device.
"""

from __future__ import annotations

import time
from typing import Any

import torch

from . import memory_usage
from .core import device_index, native

_initialized = True  # torch.utils.checkpoint asks for it


def init() -> None:
    """Do nothing: the device opens with the first use."""


_lazy_init = init


def is_initialized() -> bool:
    """Return True."""
    return True


def is_available() -> bool:
    """Return True: without a device the package would not have been imported."""
    return True


def _is_in_bad_fork() -> bool:
    return bool(native().fast.forked())


# ---- devices ----


def device_count() -> int:
    """Return the number of devices of this process."""
    return native().device_count()


def current_device() -> int:
    """Return the index that ``xla`` without an index stands for."""
    return device_index(None)


def set_device(device: Any) -> None:
    """Make a device the current one; RuntimeError for an index that there is not."""
    index = device_index(device)
    if index < 0:
        return
    if index >= device_count():
        raise RuntimeError(f"xla:{index}: invalid device ordinal; this process has {device_count()} xla device(s)")
    native().fast.set_current_device(index)


class device:  # noqa: N801 (torch's name)
    """Context manager that changes the current device; an index below 0 changes nothing."""

    def __init__(self, device: Any) -> None:
        self.idx = device_index(device)
        self.prev_idx = -1

    def __enter__(self) -> device:
        self.prev_idx = current_device()
        set_device(self.idx)
        return self

    def __exit__(self, *exception: object) -> None:
        set_device(self.prev_idx)


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    if allow_cpu and device is not None and not isinstance(device, int) and torch.device(device).type == "cpu":
        return -1
    return device_index(device)


def _exchange_device(index: int) -> int:
    before = current_device()
    set_device(index)
    return before


_maybe_exchange_device = _exchange_device


def get_device_name(device: Any = None) -> str:
    """Return "xla:0"."""
    return f"xla:{device_index(device)}"


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """Return (0, 0): XLA devices have no compute capability."""
    return (0, 0)


def can_device_access_peer(device: Any, peer: Any) -> bool:
    """Return False: devices exchange data only through the runtime."""
    return False


def synchronize(device: Any = None) -> None:
    """Compute what is recorded for a device (all of them for None), and wait for it."""
    native().sync_all(-1 if device is None else device_index(device), True)


def empty_cache() -> None:
    """Do nothing: the runtime keeps no cache of its own that could be emptied."""


max_memory_allocated = memory_usage.max_memory_allocated
max_memory_reserved = memory_usage.max_memory_reserved
mem_get_info = memory_usage.mem_get_info
memory_allocated = memory_usage.memory_allocated
memory_reserved = memory_usage.memory_reserved
memory_stats = memory_usage.memory_stats
memory_summary = memory_usage.memory_summary
reset_accumulated_memory_stats = memory_usage.reset_accumulated_memory_stats
reset_peak_memory_stats = memory_usage.reset_peak_memory_stats


# ---- random numbers ----


def manual_seed(seed: int) -> None:
    """Seed the current device."""
    native().manual_seed(current_device(), seed & (1 << 64) - 1)


def manual_seed_all(seed: int) -> None:
    """Seed every device."""
    for index in range(device_count()):
        native().manual_seed(index, seed & (1 << 64) - 1)


def seed() -> None:
    """Seed the current device from the clock."""
    manual_seed(time.time_ns())


def seed_all() -> None:
    """Seed every device from the clock."""
    manual_seed_all(time.time_ns())


def get_rng_state(device: Any = None) -> torch.Tensor:
    """Return the state of a device's generator, a ByteTensor."""
    return torch.frombuffer(bytearray(native().get_rng_state(device_index(device))), dtype=torch.uint8)


def set_rng_state(new_state: torch.Tensor, device: Any = None) -> None:
    """Restore the state of a device's generator."""
    native().set_rng_state(device_index(device), bytes(new_state.cpu().contiguous().numpy()))


def get_rng_state_all() -> list[torch.Tensor]:
    """Return the state of every generator."""
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state_all(new_states: list[torch.Tensor]) -> None:
    """Restore the state of every generator."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


# ---- types ----


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Return the dtypes that autocast may cast to."""
    return [torch.bfloat16, torch.float16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return True: every XLA backend has bfloat16."""
    return True


# ---- streams and events ----


class Stream:
    """The one stream of a device."""

    def __init__(self, device: Any = None, priority: int = 0, **_: Any) -> None:
        self.device = torch.device("xla", device_index(device))
        self.device_index = self.device.index
        self.device_type = torch._C._autograd.DeviceType.PrivateUse1.value
        self.priority = priority
        self.stream_id = 0

    def wait_event(self, event: Event) -> None:
        """Do nothing: what was recorded before the event runs before what comes next."""

    def wait_stream(self, stream: Stream) -> None:
        """Do nothing, for the same reason."""

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event."""
        event = event or Event()
        event.record(self)
        return event

    def query(self) -> bool:
        """Compute what is recorded and report it done."""
        self.synchronize()
        return True

    def synchronize(self) -> None:
        """Wait for the device."""
        synchronize(self.device)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exception: object) -> None:
        return None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.device == self.device

    def __hash__(self) -> int:
        return hash(self.device)


class Event:
    """A point in the order of ops. It is timed at ``synchronize``, which waits for the device."""

    def __init__(
        self,
        device: Any = None,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        **_: Any,
    ) -> None:
        self.enable_timing = enable_timing
        self.device: torch.device | None = None
        self._time: float | None = None

    def record(self, stream: Stream | None = None) -> None:
        """Mark the point; with timing, wait for the device and note the time."""
        self.device = stream.device if stream is not None else torch.device("xla", current_device())
        if self.enable_timing:
            synchronize(self.device)
            self._time = time.perf_counter()

    def wait(self, stream: Stream | None = None) -> None:
        """Do nothing: order is kept."""

    def query(self) -> bool:
        """Wait for the device and report the event done."""
        self.synchronize()
        return True

    def synchronize(self) -> None:
        """Wait for the device."""
        if self.device is not None:
            synchronize(self.device)

    def elapsed_time(self, end_event: Event) -> float:
        """Return the milliseconds between two events made with ``enable_timing=True``."""
        if self._time is None or end_event._time is None:
            raise RuntimeError("both events must be recorded, and made with enable_timing=True")
        return (end_event._time - self._time) * 1e3


def current_stream(device: Any = None) -> Stream:
    """Return the stream of a device."""
    return Stream(device)


default_stream = current_stream


def set_stream(stream: Stream) -> None:
    """Do nothing: there is one stream."""


def stream(stream: Stream | None) -> Stream:
    """Return the context manager of a stream."""
    return stream if stream is not None else Stream()
