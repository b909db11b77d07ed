"""The Go core as Python sees it: loads the library, opens the device at first use, maps errors, guards forks.

`core` is the one object of it; it is what `torch_go_xla._backend` asks for as ``Core``.
"""

from __future__ import annotations

import array
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
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from . import _job, _vocabulary, plugins
from ._backend.core import TORCH_LIBRARY
from ._backend.errors import BY_KIND, ForkedProcessError
from ._go import _goxla as _raw  # type: ignore[attr-defined]
from ._vocabulary import ERROR_CLASSES

_CLASSES: dict[str, type[BaseException]] = dict(zip(ERROR_CLASSES, BY_KIND, strict=True))

# How long a wait stays in the core before Python looks for signals, in ms.
_SLICE = 50

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


def call(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function of the bindings; errors get their Python class.

    One that has to wait for a compiler is called again and again, so that the interpreter sees signals in between.
    """
    while True:
        try:
            return function(*args)
        except RuntimeError as e:
            error = translate(e)
        if not isinstance(error, BlockingIOError):
            raise error from None


class NativeCore:
    """The process's core."""

    def __init__(self) -> None:
        check_build()
        self.raw = _raw
        self.fast: Any = _load_fast()  # the module of the kernels
        self._opened = False
        self._sync_waits = False
        self.metrics_file = ""  # where every step appends the metrics report; "": nowhere
        self._lock = threading.Lock()
        self._lent: dict[object, Any] = {}  # what `borrow` keeps, by number, or by a key until it has one
        self._returned: deque[int] = deque()  # numbers of arrays that are read no longer

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
            settings = json.dumps(
                {**plugins.device_settings({row[0] for row in self.config_table()}, job), "torch": TORCH_LIBRARY}
            )
            if job.world_size > 1:
                self._open_in(job, settings)
            else:
                call(_raw.bindings_Open, settings)
            self._sync_waits = plugins.is_on(self.setting("XLA_SYNC_WAIT"))
            self.metrics_file = self.setting("XLA_METRICS_FILE")
            self._opened = True
            if plugins.is_on(self.setting("XLA_USE_SPMD")):
                call(_raw.bindings_UseSPMD)

    def _open_in(self, job: _job.Job, settings: str) -> None:
        """Join a job and open the device in it."""

        def serve(host: str, secret: str) -> str:
            return str(call(_raw.bindings_ServeStore, host, secret))

        def reach(address: str, secret: str) -> bool:
            return bool(call(_raw.bindings_ReachJob, job.rank, job.world_size, address, secret, 1000))

        def work(given_up: threading.Event) -> None:
            with _job.joined(job, serve, reach, given_up):
                call(_raw.bindings_Open, settings)

        _job.interruptibly(work, _raw.bindings_LeaveJob)

    @property
    def opened(self) -> bool:
        """Whether the device is open."""
        return self._opened

    # ---- tables ----

    def op_table(self) -> Sequence[tuple[str, str]]:
        """Return name and schema of every row, in the order of their numbers."""
        return [(name, schema) for name, schema in json.loads(_raw.bindings_OpTable())]

    def config_table(self) -> Sequence[tuple[str, str, str, str]]:
        """Return name, type, default and meaning of the variables that the core honours."""
        return [tuple(row) for row in json.loads(_raw.bindings_ConfigTable())]

    def setting(self, name: str) -> str:
        """Return the text of a variable of the config table as it was when the device was opened."""
        return str(_raw.bindings_Setting(name))

    # ---- devices ----

    def device_count(self) -> int:
        """Return the number of devices of this process."""
        self.open()
        return int(_raw.bindings_DeviceCount())

    def devices(self) -> list[dict[str, Any]]:
        """Describe the devices."""
        self.open()
        return list(json.loads(call(_raw.bindings_Devices)))

    def memory_info(self, device: int) -> dict[str, int]:
        """Return the figures of a device's allocator, in bytes."""
        self.open()
        return dict(json.loads(call(_raw.bindings_MemoryInfo, device)))

    # ---- data ----

    def upload(self, handle: int, address: int, nbytes: int, scalar_type: int, sizes: Sequence[int]) -> None:
        """Fill a storage from a dense array; the memory is free on return."""
        dims = array.array("q", sizes)
        call(_raw.bindings_Upload, handle, address, scalar_type, dims.buffer_info()[0], len(dims))

    def borrow(self, handle: int, owner: Any, address: int, scalar_type: int, sizes: Sequence[int]) -> None:
        """Fill a storage from a dense array that may stay where it is; ``owner`` is kept while it is read there."""
        dims = array.array("q", sizes)
        # There is no lock: a signal handler that syncs would wait for it. The owner is kept before it is lent: an
        # interrupt in between may leave it here, but frees no memory that is read.
        key = object()
        self._lent[key] = owner
        try:
            number = call(_raw.bindings_Borrow, handle, address, scalar_type, dims.buffer_info()[0], len(dims))
        except Exception:
            del self._lent[key]
            raise
        self._lent[int(number)] = owner
        del self._lent[key]
        self._take_back()

    def _take_back(self) -> None:
        """Release what was borrowed and is read no longer."""
        if not self._lent:
            return
        self._returned.extend(json.loads(_raw.bindings_Returned()) or ())
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

    def fetch(self, handle: int, address: int, nbytes: int) -> None:
        """Copy a whole storage to host memory, after a sync if its value is not computed yet."""
        while not call(_raw.bindings_Ready, handle, _SLICE):
            pass
        call(_raw.bindings_Fetch, handle, address, nbytes)

    def snapshot(self, handles: Sequence[int]) -> int:
        """Sync the devices of some storages and hold their values of this moment; return its number."""
        self.open()
        words = array.array("q", handles)
        return int(call(_raw.bindings_Snapshot, words.buffer_info()[0], len(words)))

    def fetch_snapshot(self, snapshot: int, place: int, address: int, nbytes: int) -> None:
        """Copy a value that a snapshot holds to host memory."""
        call(_raw.bindings_FetchSnapshot, snapshot, place, address, nbytes)

    def snapshot_address(self, snapshot: int, place: int) -> int:
        """Return where a value lies in host memory, good while the snapshot lives; 0 if it does not."""
        return int(call(_raw.bindings_SnapshotAddress, snapshot, place))

    def drop_snapshot(self, snapshot: int) -> None:
        """Let go of the values of a snapshot."""
        _raw.bindings_DropSnapshot(snapshot)

    def capture(self, arguments: Sequence[int], results: Sequence[int], state: bool) -> tuple[int, int]:
        """Make what is recorded repeatable; return its number, 0 if it cannot be, and a digest of its numbers.

        ``arguments`` and ``results`` are handles of storages. With ``state``, all other storages that it reads or
        writes belong to it.
        """
        given, made, digest = (array.array("q", words) for words in (arguments, results, (0,)))
        address = [a.buffer_info()[0] for a in (given, made, digest)]
        id = call(_raw.bindings_Capture, address[0], len(given), address[1], len(made), state, address[2])
        return int(id), digest[0]

    def drop_replay(self, id: int) -> None:
        """Forget a captured computation."""
        _raw.bindings_DropReplay(id)

    def record(self, graph: str, arguments: Sequence[int], results: int) -> list[int]:
        """Record a graph from its text on some storages; return the handles of its results."""
        self.open()
        given, made = array.array("q", arguments), array.array("q", bytes(8 * results))
        call(_raw.bindings_RecordGraph, graph, given.buffer_info()[0], len(given), made.buffer_info()[0], results)
        return list(made)

    def placeholder(self, handle: int, scalar_type: int, sizes: Sequence[int]) -> None:
        """Make a storage stand for an argument of a function that is being traced, a dense array."""
        dims = array.array("q", sizes)
        call(_raw.bindings_Placeholder, handle, scalar_type, dims.buffer_info()[0], len(dims))

    def function(self, arguments: Sequence[int], results: Sequence[int]) -> str:
        """Keep what is recorded of some storages, as a function of others, for control flow; return its name."""
        a, r = array.array("q", arguments), array.array("q", results)
        return str(call(_raw.bindings_Function, a.buffer_info()[0], len(a), r.buffer_info()[0], len(r), True))

    def export(self, arguments: Sequence[int], results: Sequence[int]) -> str:
        """Return what is recorded of some storages, as a function of others, as a StableHLO module."""
        a, r = array.array("q", arguments), array.array("q", results)
        return str(call(_raw.bindings_Function, a.buffer_info()[0], len(a), r.buffer_info()[0], len(r), False))

    def syncs(self) -> int:
        """Return how many graphs were synced."""
        return self.counters().get("SyncTensorsGraph", 0)

    def copy(self, to: int, source: int) -> None:
        """Fill a storage from one of another device."""
        call(_raw.bindings_CopyDevice, to, source)

    # ---- SPMD ----

    def use_spmd(self) -> None:
        """Make one device of all devices of all processes."""
        self.open()
        call(_raw.bindings_UseSPMD)

    def partitions(self) -> int:
        """Return the number of devices that SPMD spreads programs over, 0 without SPMD; XLA_USE_SPMD opens them."""
        if not self._opened and plugins.is_on(os.environ.get("XLA_USE_SPMD", "")):
            self.open()
        return int(_raw.bindings_Partitions())

    def torch_kernels(self) -> bool:
        """Tell whether programs may call torch's own CPU kernels."""
        return bool(_raw.bindings_TorchKernels())

    def annotate(self, handle: int, scalar_type: int, sizes: Sequence[int], sharding: str) -> None:
        """Give the value of a storage a sharding; "" takes it away."""
        dims = array.array("q", sizes)
        call(_raw.bindings_Annotate, handle, scalar_type, dims.buffer_info()[0], len(dims), sharding)

    def shards(self, handle: int, wait: bool = True) -> list[dict[str, Any]]:
        """Return what each device of this process holds of the value of a storage: device, replica, start, size."""
        while wait and not call(_raw.bindings_Ready, handle, _SLICE):
            pass
        return list(json.loads(call(_raw.bindings_Shards, handle)))

    def fetch_shard(self, handle: int, device: int, address: int) -> None:
        """Copy what a device holds of the value of a storage to host memory."""
        call(_raw.bindings_FetchShard, handle, device, address)

    def set_shards(self, handle: int, addresses: Sequence[int]) -> None:
        """Replace what each device holds of the value of a storage."""
        words = array.array("q", addresses)
        call(_raw.bindings_SetShards, handle, words.buffer_info()[0], len(words))

    def watch(self) -> None:
        """Remember the programs that run from now on, until `collectives`."""
        _raw.bindings_Watch()

    def collectives(self) -> list[list[dict[str, Any]]]:
        """Return the collectives of each program that has run since `watch`."""
        return list(json.loads(call(_raw.bindings_Collectives)))

    def describe(self, handle: int) -> dict[str, Any]:
        """Return the state of a storage."""
        return dict(json.loads(call(_raw.bindings_Describe, handle)))

    # ---- steps ----

    def sync(self, device: int, mark: bool = False) -> None:
        """Compute what is recorded for a device; returns when it is on its way."""
        self.open()
        call(_raw.bindings_Sync, device, mark)
        if self._sync_waits:
            self.wait(device)
        while not call(_raw.bindings_Throttle, device, _AHEAD, _SLICE):
            pass
        self._take_back()

    def wait(self, device: int) -> None:
        """Wait until a device has done everything."""
        self.open()
        while not call(_raw.bindings_WaitDevice, device, _SLICE):
            pass

    def sync_all(self, device: int, wait: bool) -> None:
        """Compute what is recorded for a device, -1 for all."""
        if not self._opened:
            return
        devices = range(self.device_count()) if device < 0 else (device,)
        for d in devices:
            self.sync(d)
        if wait:
            for d in devices:
                self.wait(d)

    def sync_some(self, handles: Sequence[int]) -> None:
        """Compute some storages and leave the others recorded."""
        words = array.array("q", handles)
        call(_raw.bindings_SyncSome, words.buffer_info()[0], len(words))

    def dump(self, handles: Sequence[int], form: str) -> str:
        """Return the recorded graph of some storages: ir, dot, stablehlo or program (what this process compiles)."""
        words = array.array("q", handles)
        return str(call(_raw.bindings_DumpGraph, words.buffer_info()[0], len(words), form))

    # ---- other processes ----

    def exchange(self, tag: str, value: str, members: Sequence[int]) -> list[str]:
        """Give some processes of the job a text and return those of all; they do so with the same tags.

        ValueError if this process is none of them.
        """
        self.open()
        while not (found := call(_raw.bindings_Exchange, tag, value, json.dumps(list(members)), _SLICE)):
            pass
        return list(json.loads(found))

    def set_job_timeout(self, seconds: float) -> None:
        """Set for how long the processes of the job wait for each other, in place of TORCH_GO_XLA_JOB_TIMEOUT."""
        _raw.bindings_SetJobTimeout(max(1, int(1000 * seconds)))

    # ---- random numbers ----

    def new_generator(self, device: int) -> int:
        """Return the number of a new generator for a device."""
        self.open()
        return int(call(_raw.bindings_NewGenerator, device))

    def drop_generator(self, generator: int) -> None:
        """Forget a generator that new_generator made."""
        call(_raw.bindings_DropGenerator, generator)

    def manual_seed(self, generator: int, seed: int) -> None:
        """Seed a generator; a device's own has the device's number."""
        self.open()
        call(_raw.bindings_Seed, generator, _signed(seed), 0)

    def get_rng_state(self, generator: int) -> bytes:
        """Return the state of a generator: seed and draws, 8 bytes each."""
        self.open()
        key = call(_raw.bindings_RandomKey, generator)
        draws = call(_raw.bindings_RandomDraws, generator)
        return int(key).to_bytes(8, "little", signed=True) + int(draws).to_bytes(8, "little", signed=True)

    def set_rng_state(self, generator: int, state: bytes) -> None:
        """Restore the state of a generator."""
        self.open()
        if len(state) != 16:
            raise RuntimeError(f"RNG state is wrong size: expected 16 bytes, got {len(state)}")
        key, draws = (int.from_bytes(state[i : i + 8], "little", signed=True) for i in (0, 8))
        call(_raw.bindings_Seed, generator, key, draws)

    # ---- the rest ----

    def set_default_dtype(self, scalar_type: int) -> None:
        """Follow torch.set_default_dtype."""
        call(_raw.bindings_SetDefaultDtype, scalar_type)

    def set_precision(self, name: str) -> None:
        """Set the operand precision of matrix products and convolutions: default, high or highest."""
        call(_raw.bindings_Precision, name)

    def precision(self) -> str:
        """Return what `set_precision` set."""
        return str(call(_raw.bindings_Precision, ""))

    def count(self, name: str) -> None:
        """Add one to a counter of the metrics."""
        _raw.bindings_Count(name, 1)

    def counters(self) -> dict[str, int]:
        """Return the counters that are not zero."""
        return dict(json.loads(_raw.bindings_Counters()))

    def start_profile(self) -> None:
        """Start the recording of a timeline; RuntimeError if one runs."""
        self.open()
        call(_raw.bindings_Profile, True)

    def stop_profile(self) -> str:
        """End the recording and return it in the Trace Event Format, "" if none runs."""
        for d in range(self.device_count()):
            self.wait(d)
        return str(call(_raw.bindings_Profile, False))

    def compilations(self) -> list[dict[str, Any]]:
        """Return why the latest graphs were compiled, the oldest first."""
        return list(json.loads(_raw.bindings_Compilations()) or [])

    def metrics(self) -> list[dict[str, Any]]:
        """Return the metrics that have samples."""
        return list(json.loads(_raw.bindings_Metrics()) or [])


def _signed(seed: int) -> int:
    """Return a seed as a signed 64-bit number, as torch takes seeds of either kind."""
    if not -(1 << 63) <= seed < 1 << 64:
        raise RuntimeError("Overflow when unpacking long")
    return seed - (1 << 64) if seed >= 1 << 63 else seed


_forked = False


def _after_fork_in_child() -> None:
    """Make the core unusable: of the Go runtime's threads, only the calling one lives on in a child."""
    global _forked
    _forked = True

    def dead(*args: Any, **kwargs: Any) -> Any:
        raise ForkedProcessError("torch_go_xla cannot be used in a forked child: use the 'spawn' start method")

    for name in dir(_raw):
        if name.startswith("bindings_"):
            setattr(_raw, name, dead)


# How long the end of the process waits for other threads to leave the core, in ms. Their waits come in slices.
_PATIENCE = 10_000


def _end() -> None:
    """Stop the other threads where they use the core, and wait for what the devices do.

    At its end the process takes the libraries from under the threads that use them.
    """
    if _forked:
        return
    try:
        for _ in range(0, _PATIENCE, _SLICE):
            if core.fast.end(_SLICE):
                break
        if core.opened:
            for device in range(core.device_count()):
                with contextlib.suppress(RuntimeError):  # of values that nobody has read
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
