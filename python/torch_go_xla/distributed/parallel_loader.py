"""Loaders that send batches to the devices in the background, while the step before is computed."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

import torch

from .. import runtime, sync
from ..core import xla_model as xm
from ..distributed import spmd as xs

__all__ = ["MpDeviceLoader", "ParallelLoader", "PerDeviceLoader"]


class _Channel:
    """A queue between threads that can be closed; the reader of a finished one gets None."""

    def __init__(self, size: int) -> None:
        self._items: deque[Any] = deque()
        self._size = size
        self._changed = threading.Condition()
        self._finished = False
        self._closed = False

    def put(self, item: Any) -> bool:
        """Wait for room and append; False if the channel was closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._items) < self._size)
            if not self._closed:
                self._items.append(item)
                self._changed.notify_all()
            return not self._closed

    def get(self) -> Any:
        """Wait for an item; None if there will be no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._items or self._finished)
            if self._closed or not self._items:
                return None
            item = self._items.popleft()
            self._changed.notify_all()
            return item

    def finish(self) -> None:
        """Say that nothing more comes."""
        with self._changed:
            self._finished = True
            self._changed.notify_all()

    def close(self) -> None:
        """Drop what is there and wake everyone."""
        with self._changed:
            self._closed = True
            self._items.clear()
            self._changed.notify_all()


def _read(loader: Iterable[Any], channels: Sequence[_Channel]) -> None:
    """Deal the batches of a loader out, a round at a time; a round that is not full is left out."""
    try:
        rounds: list[Any] = []
        for batch in loader:
            rounds.append(batch)
            if len(rounds) == len(channels):
                if not all([c.put(b) for c, b in zip(channels, rounds, strict=True)]):
                    return
                rounds = []
    except BaseException as e:  # the reader of the batches raises it
        failed: Future[Any] = Future()
        failed.set_exception(e)
        for c in channels:
            c.put(failed)
    finally:
        for c in channels:
            c.finish()


def _send(cpu: _Channel, ready: _Channel, device: torch.device, threads: int, sharding: Any) -> None:
    """Send batches to a device; what is ready is futures, in the order of the batches."""
    with ThreadPoolExecutor(threads) as pool:
        while (batch := cpu.get()) is not None:
            sent = batch if isinstance(batch, Future) else pool.submit(_placed, batch, device, sharding)
            if not ready.put(sent):
                break
    ready.finish()


def _placed(batch: Any, device: torch.device, sharding: Any) -> Any:
    with torch.no_grad():
        if sharding is None:
            return xm.map_tensors(batch, lambda t: _whole(t.to(device)))
        if not isinstance(sharding, dict):
            return _sharded(batch, device, sharding)
        if not isinstance(batch, dict):
            raise ValueError("input batch should be a dict when input sharding is a dict.")
        if missing := [key for key in batch if key not in sharding]:
            raise KeyError(f"Keys: {missing} are missing from input_sharding.")
        return {key: _sharded(value, device, sharding[key]) for key, value in batch.items()}


def _sharded(data: Any, device: torch.device, sharding: Any) -> Any:
    return xm.map_tensors(data, lambda t: t.to(device) if sharding is None else sharding.send(t, device))


def _whole(t: torch.Tensor) -> torch.Tensor:
    """Return a tensor that is told to be on every device under SPMD, so that the compiler leaves it there."""
    if runtime.is_spmd():
        xs.mark_sharding(t, xs.get_1d_mesh(), (None,) * t.dim())
    return t


def _close(end: object, closing: SimpleQueue[object], channels: Sequence[_Channel]) -> None:
    """Close the channels when the loader is closed, or has come to its end, which is kept here."""
    closing.get()
    for c in channels:
        c.close()


class ParallelLoader:
    """Reads batches from a loader and sends them to devices in the background.

    What reading or sending a batch raises is raised where the batch is taken.

    Args:
        cpu_loader: the loader, such as a ``torch.utils.data.DataLoader``. Its batches are nested data with tensors.
        devices: batch i goes to device i modulo their number.
        batchdim: accepted for torch_xla's programs.
        batches_per_execution: batches between two syncs.
        loader_prefetch_size: batches a device that are read ahead.
        device_prefetch_size: batches a device that are sent ahead.
        host_to_device_transfer_threads: threads a device that send.
        input_sharding: a ShardingSpec for the tensors that it fits, or a dict of them by the keys of the batches.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.distributed.parallel_loader import ParallelLoader
        >>> batches = [torch.zeros(2), torch.ones(2)]
        >>> loader = ParallelLoader(batches, [torch.device("xla:0")])
        >>> loader.per_device_samples(), loader.batches_per_execution
        (2, 1)
        >>> [x.tolist() for x in loader.per_device_loader("xla:0")]
        [[0.0, 0.0], [1.0, 1.0]]
        >>> loader.close()
    """

    def __init__(
        self,
        cpu_loader: Any,
        devices: Sequence[Any],
        batchdim: int = 0,
        batches_per_execution: int = 1,
        loader_prefetch_size: int = 16,
        device_prefetch_size: int = 8,
        host_to_device_transfer_threads: int = 1,
        input_sharding: Any = None,
    ) -> None:
        self._cpu_loader = cpu_loader
        self._batches_per_execution = batches_per_execution
        placed = [torch.device(d) for d in devices]
        cpu = [_Channel(loader_prefetch_size) for _ in placed]
        ready = [_Channel(device_prefetch_size) for _ in placed]
        self._ready = dict(zip(placed, ready, strict=True))
        self._threads = [threading.Thread(target=_read, args=(cpu_loader, cpu), daemon=True)]
        for device, source, target in zip(placed, cpu, ready, strict=True):
            args = (source, target, device, host_to_device_transfer_threads, input_sharding)
            self._threads.append(threading.Thread(target=_send, args=args, daemon=True))
        self._closing: SimpleQueue[object] = SimpleQueue()
        # `put` is written in C: the end of the loader runs no Python, and waits for no lock.
        end = weakref.ref(self, self._closing.put)
        self._threads.append(threading.Thread(target=_close, args=(end, self._closing, cpu + ready), daemon=True))
        for thread in self._threads:
            thread.start()

    @property
    def batches_per_execution(self) -> int:
        """Batches between two syncs."""
        return self._batches_per_execution

    def per_device_loader(self, device: Any) -> PerDeviceLoader:
        """Return the iterator over a device's batches.

        Args:
            device: one of the devices, with its index.
        """
        return PerDeviceLoader(self, torch.device(device))

    def per_device_samples(self) -> int:
        """Return the number of batches for each device."""
        return len(self._cpu_loader) // len(self._ready)

    def next_item(self, device: torch.device) -> Any:
        """Return a device's next batch, None after the last. `PerDeviceLoader` calls it.

        Args:
            device: one of the devices, with its index.

        Example:
            >>> import torch, torch_go_xla
            >>> from torch_go_xla.distributed.parallel_loader import ParallelLoader
            >>> device = torch.device("xla:0")
            >>> ParallelLoader([torch.ones(2)], [device]).next_item(device)
            tensor([1., 1.], device='xla:0')
        """
        sent = self._ready[device].get()
        return None if sent is None else sent.result()

    def close(self) -> None:
        """Stop the threads; iterators end."""
        self._closing.put(None)
        for thread in self._threads:
            thread.join()


class PerDeviceLoader:
    """The batches of one device. It syncs before a batch, after ``batches_per_execution``, and after the last.

    Args:
        loader: reads and sends the batches.
        device: one of its devices, with its index.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.distributed.parallel_loader import ParallelLoader, PerDeviceLoader
        >>> device = torch.device("xla:0")
        >>> for x in PerDeviceLoader(ParallelLoader([torch.ones(2)], [device]), device):
        ...     y = x + 1  # a step, which is synced before the next batch
        >>> y.tolist()
        [2.0, 2.0]
    """

    def __init__(self, loader: ParallelLoader, device: torch.device) -> None:
        self._loader = loader
        self._device = device
        self._given = 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __len__(self) -> int:
        return self._loader.per_device_samples()

    def __next__(self) -> Any:
        if self._given % self._loader.batches_per_execution == 0:
            sync()
        item = self._loader.next_item(self._device)
        if item is None:
            sync()
            raise StopIteration
        self._given += 1
        return item

    def next(self) -> Any:
        """Return the next batch, as ``next`` does.

        Raises:
            StopIteration: there are no more.

        Example:
            >>> import torch, torch_go_xla
            >>> from torch_go_xla.distributed.parallel_loader import ParallelLoader
            >>> ParallelLoader([torch.ones(2)], [torch.device("xla:0")]).per_device_loader("xla:0").next()
            tensor([1., 1.], device='xla:0')
        """
        return next(self)


class MpDeviceLoader:
    """A loader whose batches are on a device; each iteration over it starts the loader again.

    It has the attributes of the loader besides its own, such as ``dataset``.

    Args:
        loader: as ParallelLoader's ``cpu_loader``.
        device: the device, with its index.
        kwargs: ParallelLoader's other arguments, such as ``input_sharding``.

    Example:
        >>> import torch, torch_go_xla.core.xla_model as xm
        >>> from torch_go_xla.distributed.parallel_loader import MpDeviceLoader
        >>> data = torch.utils.data.TensorDataset(torch.arange(4.0), torch.arange(4.0) * 2)
        >>> loader = torch.utils.data.DataLoader(data, batch_size=2)
        >>> for x, y in MpDeviceLoader(loader, xm.xla_device()):
        ...     print(x, y)
        tensor([0., 1.], device='xla:0') tensor([0., 2.], device='xla:0')
        tensor([2., 3.], device='xla:0') tensor([4., 6.], device='xla:0')
    """

    def __init__(self, loader: Any, device: Any, **kwargs: Any) -> None:
        self._loader = loader
        self._device = device
        self._parallel_loader_kwargs = kwargs
        self._parallel_loader: ParallelLoader | None = None

    def __iter__(self) -> Iterator[Any]:
        if self._parallel_loader is not None:
            self._parallel_loader.close()
        self._parallel_loader = ParallelLoader(self._loader, [self._device], **self._parallel_loader_kwargs)
        return self._parallel_loader.per_device_loader(self._device)

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        if name == "_loader":  # it has none yet
            raise AttributeError(name)
        return getattr(self._loader, name)
