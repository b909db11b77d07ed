"""Small helpers that programs take from torch_xla's ``torch_xla.utils.utils``, usually imported as ``xu``."""

from __future__ import annotations

import contextlib
import copy
import os
import shutil
import socket
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from types import TracebackType
from typing import Any

__all__ = [
    "Cleaner",
    "DataWrapper",
    "FnDataGenerator",
    "LazyProperty",
    "SampleGenerator",
    "TimedScope",
    "TmpFolder",
    "as_list",
    "check_env_flag",
    "eprint",
    "flatten_nested_tuple",
    "for_each_instance",
    "for_each_instance_rewrite",
    "get_free_tcp_ports",
    "get_print_fn",
    "getenv_as",
    "list_copy_append",
    "null_print",
    "parallel_work",
    "shape",
    "timed",
]

_Print = Callable[..., Any]


class Cleaner:
    """Call a function when the object dies, at the end of the process at the latest; not in a forked child."""

    def __init__(self, func: Callable[[], Any]) -> None:
        self.func = func
        weakref.finalize(self, _call_in, os.getpid(), func)


def _call_in(process: int, func: Callable[[], Any]) -> None:
    if os.getpid() == process:
        func()


class LazyProperty:
    """A value that is computed when it is first read."""

    def __init__(self, gen_fn: Callable[[], Any]) -> None:
        self._gen_fn: Callable[[], Any] | None = gen_fn
        self._value: Any = None

    @property
    def value(self) -> Any:
        """The value."""
        if self._gen_fn is not None:
            self._value = self._gen_fn()
            self._gen_fn = None
        return self._value


class TmpFolder:
    """A temporary folder, ``name``, which goes with the object."""

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp()
        self.cleaner = Cleaner(lambda folder=self.name: shutil.rmtree(folder))  # type: ignore[misc]


class SampleGenerator:
    """Yield the same data ``sample_count`` times: a loader for benchmarks and examples.

    Each iteration over it starts from the beginning.

    Example:
        >>> list(SampleGenerator(data="batch", sample_count=2))
        ['batch', 'batch']
    """

    def __init__(self, data: Any, sample_count: int) -> None:
        self._data = data
        self._sample_count = sample_count
        self._count = 0

    def __iter__(self) -> SampleGenerator:
        return SampleGenerator(self._data, self._sample_count)

    def __len__(self) -> int:
        return self._sample_count

    def __next__(self) -> Any:
        return self.next()

    def next(self) -> Any:
        """Return the data; StopIteration after ``sample_count`` calls."""
        if self._count >= self._sample_count:
            raise StopIteration
        self._count += 1
        return self._data


class FnDataGenerator:
    """Yield ``count`` pairs ``(data, func(data))`` with ``data = gen_tensor(batch_size, *dims)``."""

    def __init__(
        self,
        func: Callable[[Any], Any],
        batch_size: int,
        gen_tensor: Callable[..., Any],
        dims: Sequence[int] | None = None,
        count: int = 1,
    ) -> None:
        self._func = func
        self._batch_size = batch_size
        self._gen_tensor = gen_tensor
        self._dims = list(dims) if dims else [1]
        self._count = count
        self._emitted = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> FnDataGenerator:
        return FnDataGenerator(self._func, self._batch_size, self._gen_tensor, self._dims, self._count)

    def __next__(self) -> Any:
        return self.next()

    def next(self) -> Any:
        """Return the next pair; StopIteration after ``count`` of them."""
        if self._emitted >= self._count:
            raise StopIteration
        self._emitted += 1
        data = self._gen_tensor(self._batch_size, *self._dims)
        return data, self._func(data)


class DataWrapper:
    """Base of the classes whose tensors a loader sends to the device."""

    def get_tensors(self) -> list[Any]:
        """Return the tensors on the CPU to send."""
        raise NotImplementedError(f"{type(self).__name__}.get_tensors is not implemented")

    def from_tensors(self, tensors: list[Any]) -> Any:
        """Return the object with the sent tensors, in the order of `get_tensors`."""
        raise NotImplementedError(f"{type(self).__name__}.from_tensors is not implemented")


# ---- settings ----


def getenv_as(name: str, type: Callable[[Any], Any], defval: Any = None) -> Any:
    """Return a variable of the environment as a type, ``defval`` if it is not set; a bool is written as a number."""
    text = os.environ.get(name)
    if text is None:
        return defval
    return type(int(text)) if type is bool else type(text)


def check_env_flag(name: str, default: str = "") -> bool:
    """Tell whether a variable of the environment is ``true`` or a number above 0."""
    flag = os.getenv(name, default)
    return flag == "true" or (flag.isdigit() and int(flag) > 0)


# ---- nested data ----


def as_list(t: Any) -> Any:
    """Return a list or tuple as it is, anything else as a list of one."""
    return t if isinstance(t, tuple | list) else [t]


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for pair in value.items():
            yield from pair
    elif isinstance(value, list | tuple | set):
        yield from value
    elif isinstance(value, DataWrapper):
        yield from value.get_tensors()
    elif hasattr(value, "__dict__"):
        yield from vars(value).values()


def for_each_instance(value: Any, select_fn: Callable[[Any], bool], fn: Callable[[Any], Any]) -> None:
    """Call ``fn`` on what ``select_fn`` picks in nested data: containers, DataWrappers, attributes of objects."""
    seen: set[int] = set()

    def visit(x: Any) -> None:
        if id(x) in seen:
            return
        seen.add(id(x))
        if select_fn(x):
            fn(x)
        else:
            for child in list(_children(x)):
                visit(child)

    visit(value)


def for_each_instance_rewrite(value: Any, select_fn: Callable[[Any], bool], fn: Callable[[Any], Any]) -> Any:
    """Return nested data with ``fn(x)`` in the place of each x that ``select_fn`` picks.

    Tuples become lists, as in torch_xla: what refers to itself has to be there before its items are.
    """
    made: dict[int, Any] = {}

    def rewrite(x: Any) -> Any:
        if id(x) in made:
            return made[id(x)]
        result: Any = x
        if select_fn(x):
            result = made[id(x)] = fn(x)
        elif isinstance(x, dict):
            result = made[id(x)] = {}
            result.update((rewrite(k), rewrite(v)) for k, v in x.items())
        elif isinstance(x, set):
            result = made[id(x)] = set()
            result.update(map(rewrite, x))
        elif isinstance(x, list | tuple):
            result = made[id(x)] = []
            result.extend(map(rewrite, x))
        elif isinstance(x, DataWrapper):
            result = made[id(x)] = x.from_tensors(list(map(rewrite, x.get_tensors())))
        elif hasattr(x, "__dict__"):
            result = made[id(x)] = copy.copy(x)
            for name, item in vars(x).items():
                vars(result)[name] = rewrite(item)
        return result

    return rewrite(value)


def shape(inputs: Any) -> list[int]:
    """Return the sizes of nested lists; AssertionError if those of the items differ."""
    if not isinstance(inputs, list | tuple):
        return []
    inner = [shape(x) for x in inputs]
    assert all(s == inner[0] for s in inner), f"the items have different shapes: {inner}"
    return [len(inputs), *(inner[0] if inner else [])]


def flatten_nested_tuple(inputs: Any) -> tuple[Any, ...]:
    """Return the leaves of nested lists and tuples."""
    if not isinstance(inputs, list | tuple):
        return (inputs,)
    return tuple(leaf for x in inputs for leaf in flatten_nested_tuple(x))


def list_copy_append(ilist: Sequence[Any], item: Any) -> list[Any]:
    """Return a copy of a list with an item behind it."""
    return [*ilist, item]


# ---- printing and timing ----


def null_print(*args: Any, **kwargs: Any) -> None:
    """Print nothing."""


def eprint(*args: Any, **kwargs: Any) -> None:
    """Print to stderr."""
    print(*args, file=sys.stderr, **kwargs)


def get_print_fn(debug: int | None = None) -> _Print:
    """Return `eprint` if ``debug``, or else the variable DEBUG, is not 0; `null_print` otherwise."""
    return eprint if (int(os.environ.get("DEBUG", "0")) if debug is None else debug) else null_print


def timed(fn: Callable[[], Any], msg: str = "", printfn: _Print | None = eprint) -> Any:
    """Call a function and print how long it took, in ms."""
    with TimedScope(msg, printfn):
        return fn()


class TimedScope:
    """Print how long a block took, in ms, unless `set_error` was called."""

    def __init__(self, msg: str = "", printfn: _Print | None = eprint) -> None:
        self._msg = msg
        self._printfn = printfn or get_print_fn()
        self._error: Any = None
        self._start = 0.0

    def __enter__(self) -> TimedScope:
        self._start = time.time()
        return self

    def __exit__(
        self, type: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._error is None:
            self._printfn(f"{self._msg}{1000.0 * (time.time() - self._start):.3f}ms")

    def set_error(self, error: Any) -> None:
        """Say that the block failed."""
        self._error = error


# ---- processes and threads ----


def get_free_tcp_ports(n: int = 1) -> list[int]:
    """Return ports of this machine that were free a moment ago."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) for _ in range(n)]
        for s in sockets:
            s.bind(("", 0))
        return [s.getsockname()[1] for s in sockets]


def parallel_work(num_workers: int, fn: Callable[..., Any], *args: Any) -> list[Any]:
    """Return ``list(map(fn, *args))``, computed by so many threads; what a call raises is raised here."""
    with futures.ThreadPoolExecutor(max_workers=num_workers) as executor:
        return list(executor.map(fn, *args))
