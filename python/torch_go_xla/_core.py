"""The Go core as Python sees it: loads the library, opens the device at first use, maps errors, guards forks.

`core` is the one object of it. Most of its methods are generated from the library's functions (`_control`); here
stand those that do more than pass a call on.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.machinery
import importlib.util
import json
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any

from . import _job, _vocabulary, plugins
from ._backend.core import GRADIENT_KEYS, TORCH_LIBRARY
from ._backend.errors import BY_KIND, ForkedProcessError
from ._control import SLICE, Control
from ._go import _goxla as _raw  # type: ignore[attr-defined]
from ._lifetime import Ends, forbid
from ._vocabulary import ERROR_CLASSES

_CLASSES: dict[str, type[BaseException]] = dict(zip(ERROR_CLASSES, BY_KIND, strict=True))

# Launches that may wait for their turn before a sync holds the caller back.
_AHEAD = 4


def check_build() -> None:
    """Raise ImportError if the library was built with another vocabulary than this package."""
    theirs = getattr(_raw, "bindings_Vocabulary", lambda: "an older one")()
    if theirs != _vocabulary.HASH:
        raise ImportError(
            f"the library and the package are of different builds: the vocabulary of {_raw.__file__} is {theirs}, "
            f"that of {os.path.dirname(__file__)} is {_vocabulary.HASH}. Build or install both again"
        )


def _load_fast() -> ModuleType:
    """Load the second module of the library, which holds the kernels."""
    name = f"{__package__}._go._goxlafast"
    loader = importlib.machinery.ExtensionFileLoader(name, _raw.__file__)
    spec = importlib.util.spec_from_file_location(name, _raw.__file__, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    sys.modules[name] = module
    return module


def translate(error: RuntimeError) -> BaseException:
    """Return the exception that the text of an error from the core names: "[ValueError] message"."""
    text = str(error)
    if text.startswith("["):
        name, _, message = text[1:].partition("] ")
        cls = _CLASSES.get(name)
        if cls is not None:
            return cls(message)
        if name == "PanicError":
            return RuntimeError(f"internal error in the core; please report it: {message}")
    return error


def raise_unless_busy(error: RuntimeError) -> None:
    """Raise the exception that an error of the core stands for, unless the call has to be repeated."""
    named = translate(error)
    if not isinstance(named, BlockingIOError):
        raise named from None


class NativeCore(Control, Ends):
    """The process's core."""

    def __init__(self) -> None:
        check_build()
        super().__init__(_raw)
        Ends.__init__(self)
        self.fast: Any = _load_fast()  # the module of the kernels
        self._opened = False
        self._sync_waits = False
        self.metrics_file = ""  # where every step appends the metrics report; "": nowhere
        self._lock = threading.Lock()
        self._lent: dict[object, Any] = {}  # what `borrow` keeps, by number, or by a key until it has one
        self._returned: deque[int] = deque()  # numbers of arrays that are read no longer

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function of the library; errors get their Python class.

        One that has to wait for a compiler is called again and again, so that the interpreter sees signals in between.
        """
        while True:
            try:
                return function(*args)
            except RuntimeError as e:
                raise_unless_busy(e)

    # ---- opening ----

    def open(self) -> None:
        """Load the plugin of PJRT_DEVICE and create its client, unless that is done."""
        if self._opened:
            return
        with self._lock:
            if self._opened:
                return
            if _forked:
                raise ForkedProcessError("torch_go_xla cannot be used in a forked child: use the 'spawn' start method")
            job = _job.current()
            device = plugins.device_settings({row[0] for row in self.config_table()}, job)
            settings = json.dumps({**device, "torch": TORCH_LIBRARY, "gradient_keys": GRADIENT_KEYS})
            if job.world_size > 1:
                if limit := device["environment"].get(_job.TIMEOUT):
                    self.configure(_job.TIMEOUT, limit)
                self._open_in(job, settings)
            else:
                self.open_device(settings)
            self._sync_waits = plugins.is_on(self.setting("XLA_SYNC_WAIT"))
            self.metrics_file = self.setting("XLA_METRICS_FILE")
            self._opened = True
            if plugins.is_on(self.setting("XLA_USE_SPMD")):
                self.use_spmd()

    def _open_in(self, job: _job.Job, settings: str) -> None:
        """Join a job and open the device in it."""

        def reach(address: str, secret: str) -> bool:
            return self.reach_job(job.rank, job.world_size, address, secret, 1000)

        timeout = int(self.setting(_job.TIMEOUT))

        def work(given_up: threading.Event) -> None:
            with _job.joined(job, timeout, self.serve_store, reach, given_up):
                self.open_device(settings)

        _job.interruptibly(work, self.leave_job)

    @property
    def opened(self) -> bool:
        """Whether the device is open."""
        return self._opened

    # ---- data ----

    def borrow(self, handle: int, owner: Any, address: int, scalar_type: int, sizes: Sequence[int]) -> None:
        """Fill a storage from a dense array that may stay where it is; ``owner`` is kept while it is read there."""
        # There is no lock: a signal handler that syncs would wait for it. The owner is kept before it is lent: an
        # interrupt in between may leave it here, but frees no memory that is read.
        key = object()
        self._lent[key] = owner
        try:
            number = self.borrow_array(handle, address, scalar_type, sizes)
        except Exception:
            del self._lent[key]
            raise
        self._lent[number] = owner
        del self._lent[key]
        self._take_back()

    def live_bytes(self) -> int:
        """Return the bytes of the live buffers."""
        self.release_gone()
        return super().live_bytes()

    def _take_back(self) -> None:
        """Release what was borrowed and is read no longer."""
        self.release_gone()
        if not self._lent:
            return
        self._returned.extend(self.returned())
        for _ in range(len(self._returned)):
            try:
                number = self._returned.popleft()
            except IndexError:  # another thread took it
                break
            if number not in self._lent:
                self._returned.append(number)  # the thread that lends it is about to write the owner down
                continue
            free = self._lent.pop(number, None)
            del free  # which may run anything

    def partitions(self) -> int:
        """Return the number of devices that SPMD spreads programs over, 0 without SPMD; XLA_USE_SPMD opens them."""
        if not self._opened and plugins.is_on(os.environ.get("XLA_USE_SPMD", "")):
            self.open()
        return super().partitions()

    # ---- steps ----

    def wait(self, device: int) -> None:
        """Wait until a device has run what it was given until now; other threads may go on."""
        self.wait_for(device, self.submitted(device))

    def finish(self, device: int) -> None:
        """Wait as `wait` does, for all devices for -1; raise what has failed, unless reading a result has raised it."""
        busy = False
        try:  # without `call`, which takes as long as the crossing
            through = self.fast.finish(device)
        except RuntimeError as e:
            raise_unless_busy(e)
            busy = True
        if self.call(self.fast.finish, device) if busy else through:
            return
        if device < 0:
            self.finish_all(range(self.device_count()))
            return
        self.wait(device)
        self.failure(device)

    def finish_all(self, devices: Iterable[int]) -> None:
        """Wait for several devices as `finish` does, for each of them, and raise the first error."""
        first: Exception | None = None
        for d in devices:
            try:
                self.finish(d)
            except Exception as e:
                first = first or e
        if first is not None:
            raise first

    def sync(self, device: int, mark: bool = False, wait: bool = False) -> None:
        """Compute what is recorded for a device, -1 for all; return when it is on its way, or done with ``wait``."""
        if not self._opened:
            self.open()
        wait = wait or self._sync_waits
        try:
            busy = False
            try:  # without `call`, as in `finish`
                through = self.fast.sync(device, mark, wait)
            except RuntimeError as e:
                raise_unless_busy(e)
                busy = True
            if not (self.call(self.fast.sync, device, mark, wait) if busy else through):
                self._await_turn(device, wait)
        finally:
            if self._gone or self._lent:
                self._take_back()

    def _await_turn(self, device: int, wait: bool) -> None:
        """Wait for what was synced to be done, or with few programs before it."""
        try:
            if wait:
                self.finish(device)
        finally:
            for d in range(self.device_count()) if device < 0 else (device,):
                self.throttle(d, _AHEAD)

    def sync_all(self, device: int, wait: bool) -> None:
        """Compute what is recorded for a device, -1 for all, if devices are open."""
        if self._opened:
            self.sync(device, False, wait)

    def end_step(self, wait: bool) -> None:
        """Sync all devices, if they are open, and count a step."""
        if self._opened:
            self.sync(-1, True, wait)

    def syncs(self) -> int:
        """Return how many graphs were synced."""
        return int(self.counters().get("SyncTensorsGraph", 0))

    def stop_profile(self) -> str:
        """Wait for the devices, end the recording and return it in the Trace Event Format, "" if none runs."""
        for d in range(self.device_count()):
            self.wait(d)
        return super().stop_profile()

    def set_job_timeout(self, seconds: float) -> None:
        """Set for how long the processes of the job wait for each other, in place of TORCH_GO_XLA_JOB_TIMEOUT."""
        self.limit_job(max(1, int(1000 * seconds)))

    # ---- random numbers ----

    def manual_seed(self, generator: int, seed: int) -> None:
        """Seed a generator; a device's own has the device's number."""
        self.seed(generator, _signed(seed), 0)

    def get_rng_state(self, generator: int) -> bytes:
        """Return the state of a generator: seed and draws, 8 bytes each."""
        return b"".join(word.to_bytes(8, "little", signed=True) for word in self.random_state(generator))

    def set_rng_state(self, generator: int, state: bytes) -> None:
        """Restore the state of a generator."""
        if len(state) != 16:
            raise RuntimeError(f"RNG state is wrong size: expected 16 bytes, got {len(state)}")
        self.seed(generator, *(int.from_bytes(state[i : i + 8], "little", signed=True) for i in (0, 8)))


def _signed(seed: int) -> int:
    """Return a seed as a signed 64-bit number, as torch takes seeds of either kind."""
    if not -(1 << 63) <= seed < 1 << 64:
        raise RuntimeError("Overflow when unpacking long")
    return seed - (1 << 64) if seed >= 1 << 63 else seed


_forked = False  # set in the child of a fork, which has one thread then


def _after_fork_in_child() -> None:
    """Make the core unusable."""
    global _forked
    _forked = True
    forbid(_raw, ForkedProcessError)


# How long the end of the process waits for other threads to leave the core, in ms. Their waits come in slices.
_PATIENCE = 10_000


def _end() -> None:
    """Stop the other threads where they use the core, and wait for what the devices do.

    At its end the process takes the libraries from under the threads that use them.
    """
    if _forked:
        return
    try:
        for _ in range(0, _PATIENCE, SLICE):
            if core.fast.end(SLICE):
                break
        if core.opened:
            for device in range(core.device_count()):
                with contextlib.suppress(RuntimeError):  # of values that no one has read
                    core.wait(device)
    except KeyboardInterrupt:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(128 + signal.SIGINT)


class _AfterAtExit:
    """A handler for atexit that does nothing when it is called, and calls `_end` when it is freed.

    That is after the last handler, whatever the order in which they were registered: others may still compute and save.
    """

    def __call__(self) -> None:
        pass

    def __del__(self) -> None:
        _end()


core = NativeCore()
os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(_AfterAtExit())
