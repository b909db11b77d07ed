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
    """Calls a function when the object dies, at the end of the process at the latest; not in a forked child.

    Args:
        func: the function, without arguments.

    Example:
        >>> import torch_go_xla.utils.utils as xu
        >>> cleaner = xu.Cleaner(lambda: print("cleaned"))
        >>> del cleaner
        cleaned
    """

    def __init__(self, func: Callable[[], Any]) -> None:
        self.func = func
        weakref.finalize(self, _call_in, os.getpid(), func)


def _call_in(process: int, func: Callable[[], Any]) -> None:
    if os.getpid() == process:
        func()


class LazyProperty:
    """A value that is computed when it is first read.

    Args:
        gen_fn: computes it.

    Example:
        >>> import torch_go_xla.utils.utils as xu
        >>> lazy = xu.LazyProperty(lambda: print("computed") or 3)
        >>> lazy.value, lazy.value
        computed
        (3, 3)
    """

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
    """A temporary folder, ``name``, which is removed with the object.

    Example:
        >>> import os, torch_go_xla.utils.utils as xu
        >>> folder = xu.TmpFolder()
        >>> name = folder.name
        >>> del folder
        >>> os.path.exists(name)
        False
    """

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp()
        self.cleaner = Cleaner(lambda folder=self.name: shutil.rmtree(folder))  # type: ignore[misc]


class SampleGenerator:
    """Yields the same data again and again: a loader for benchmarks and examples.

    Each iteration over it starts from the beginning.

    Args:
        data: what each item is.
        sample_count: how many items there are.

    Example:
        >>> import torch_go_xla.utils.utils as xu
        >>> list(xu.SampleGenerator(data="batch", sample_count=2))
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
        """Return the data.

        Raises:
            StopIteration: it was called ``sample_count`` times.

        Example:
            >>> import torch_go_xla.utils.utils as xu
            >>> xu.SampleGenerator(data="batch", sample_count=2).next()
            'batch'
        """
        if self._count >= self._sample_count:
            raise StopIteration
        self._count += 1
        return self._data


class FnDataGenerator:
    """Yields pairs of random data and a function of it: a loader for benchmarks and examples.

    Args:
        func: gets the data and returns the second item of the pair.
        batch_size: the first size of the data.
        gen_tensor: makes the data of the sizes that it gets, such as ``torch.randn``.
        dims: the other sizes; [1] by default.
        count: how many pairs there are.

    Example:
        >>> import torch, torch_go_xla.utils.utils as xu
        >>> pairs = xu.FnDataGenerator(lambda x: 2 * x, batch_size=2, gen_tensor=torch.ones, dims=[3], count=5)
        >>> x, y = next(pairs)
        >>> x.shape, y.tolist(), len(pairs)
        (torch.Size([2, 3]), [[2.0, 2.0, 2.0], [2.0, 2.0, 2.0]], 5)
    """

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
        """Return the next pair.

        Raises:
            StopIteration: there were ``count`` of them.

        Example:
            >>> import torch, torch_go_xla.utils.utils as xu
            >>> xu.FnDataGenerator(torch.sum, batch_size=2, gen_tensor=torch.ones).next()[1]
            tensor(2.)
        """
        if self._emitted >= self._count:
            raise StopIteration
        self._emitted += 1
        data = self._gen_tensor(self._batch_size, *self._dims)
        return data, self._func(data)


class DataWrapper:
    """Base of the classes whose tensors a loader sends to the device.

    Example:
        >>> import torch, torch_go_xla.utils.utils as xu
        >>> class Sentence(xu.DataWrapper):
        ...     def __init__(self, text, ids):
        ...         self.text, self.ids = text, ids
        ...     def get_tensors(self):
        ...         return [self.ids]
        ...     def from_tensors(self, tensors):
        ...         return Sentence(self.text, *tensors)
        >>> sentence = Sentence("a b", torch.tensor([0, 1]))
        >>> sentence.from_tensors([t.to("xla") for t in sentence.get_tensors()]).ids.device
        device(type='xla', index=0)
    """

    def get_tensors(self) -> list[Any]:
        """Return the tensors on the CPU to send.

        Raises:
            NotImplementedError: the class does not define it.
        """
        raise NotImplementedError(f"{type(self).__name__}.get_tensors is not implemented")

    def from_tensors(self, tensors: list[Any]) -> Any:
        """Return the object with the sent tensors.

        Args:
            tensors: the tensors, in the order of `get_tensors`.

        Raises:
            NotImplementedError: the class does not define it.
        """
        raise NotImplementedError(f"{type(self).__name__}.from_tensors is not implemented")


# ---- settings ----


def getenv_as(name: str, type: Callable[[Any], Any], defval: Any = None) -> Any:
    """Return a variable of the environment as a type.

    Args:
        name: the variable.
        type: makes the value of the text; ``bool`` reads a number.
        defval: what is returned if the variable is not set.

    Raises:
        ValueError: as the type raises it.

    Example:
        >>> import os, torch_go_xla.utils.utils as xu
        >>> os.environ["STEPS"] = "100"
        >>> xu.getenv_as("STEPS", int), xu.getenv_as("EPOCHS", int, 1)
        (100, 1)
    """
    text = os.environ.get(name)
    if text is None:
        return defval
    return type(int(text)) if type is bool else type(text)


def check_env_flag(name: str, default: str = "") -> bool:
    """Tell whether a variable of the environment is ``true`` or a number above 0.

    Args:
        name: the variable.
        default: its text if it is not set.

    Example:
        >>> import os, torch_go_xla.utils.utils as xu
        >>> os.environ["VERBOSE"] = "1"
        >>> xu.check_env_flag("VERBOSE"), xu.check_env_flag("QUIET")
        (True, False)
    """
    flag = os.getenv(name, default)
    return flag == "true" or (flag.isdigit() and int(flag) > 0)


# ---- nested data ----


def as_list(t: Any) -> Any:
    """Return a list or tuple as it is, anything else as a list of one.

    Args:
        t: any value.

    Example:
        >>> import torch_go_xla.utils.utils as xu
        >>> xu.as_list(3), xu.as_list((3, 4))
        ([3], (3, 4))
    """
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
    """Call a function on some of the values in nested data: containers, `DataWrapper` objects, attributes of objects.

    Args:
        value: the data, which may refer to itself.
        select_fn: picks the values. What is inside a picked value is not looked at.
        fn: is called on each, once.

    Example:
        >>> import torch_go_xla.utils.utils as xu
        >>> xu.for_each_instance([1, {"a": 2.5}], lambda x: isinstance(x, float), print)
        2.5
    """
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
    """Return nested data with some of its values replaced.

    Tuples become lists, as in torch_xla: what refers to itself has to be there before its items are.

    Args:
        value: the data, which may refer to itself.
        select_fn: picks the values to replace.
        fn: gets a picked value and returns what takes its place.

    Example:
        >>> import torch_go_xla.utils.utils as xu
        >>> xu.for_each_instance_rewrite({"a": (1, "b")}, lambda x: isinstance(x, int), lambda x: -x)
        {'a': [-1, 'b']}
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
    """Return the sizes of nested lists.

    Args:
        inputs: lists or tuples. Anything else has no sizes.

    Raises:
        AssertionError: items have different sizes.

    Example:
        >>> import torch_go_xla.utils.utils as xu
        >>> xu.shape([[1, 2, 3], [4, 5, 6]])
        [2, 3]
    """
    if not isinstance(inputs, list | tuple):
        return []
    inner = [shape(x) for x in inputs]
    assert all(s == inner[0] for s in inner), f"the items have different shapes: {inner}"
    return [len(inputs), *(inner[0] if inner else [])]


def flatten_nested_tuple(inputs: Any) -> tuple[Any, ...]:
    """Return the leaves of nested lists and tuples.

    Args:
        inputs: lists or tuples. Anything else is a leaf.

    Example:
        >>> import torch_go_xla.utils.utils as xu
        >>> xu.flatten_nested_tuple((1, [2, (3,)]))
        (1, 2, 3)
    """
    if not isinstance(inputs, list | tuple):
        return (inputs,)
    return tuple(leaf for x in inputs for leaf in flatten_nested_tuple(x))


def list_copy_append(ilist: Sequence[Any], item: Any) -> list[Any]:
    """Return a copy of a list with an item at its end.

    Args:
        ilist: the list, which stays as it is.
        item: the item.

    Example:
        >>> import torch_go_xla.utils.utils as xu
        >>> xu.list_copy_append([1, 2], 3)
        [1, 2, 3]
    """
    return [*ilist, item]


# ---- printing and timing ----


def null_print(*args: Any, **kwargs: Any) -> None:
    """Print nothing.

    Args:
        args: ignored.
        kwargs: ignored.

    Example:
        >>> import torch_go_xla.utils.utils as xu
        >>> xu.null_print("loss", 0.5)
    """


def eprint(*args: Any, **kwargs: Any) -> None:
    """Print to stderr.

    Args:
        args: as for ``print``.
        kwargs: as for ``print``, without ``file``.

    Example:
        >>> import torch_go_xla.utils.utils as xu
        >>> xu.eprint("loss", 0.5)
    """
    print(*args, file=sys.stderr, **kwargs)


def get_print_fn(debug: int | None = None) -> _Print:
    """Return `eprint` or `null_print`.

    Args:
        debug: print if it is not 0; by default the variable DEBUG, or 0.

    Example:
        >>> import torch_go_xla.utils.utils as xu
        >>> xu.get_print_fn(debug=0) is xu.null_print
        True
    """
    return eprint if (int(os.environ.get("DEBUG", "0")) if debug is None else debug) else null_print


def timed(fn: Callable[[], Any], msg: str = "", printfn: _Print | None = eprint) -> Any:
    """Call a function and print how long it took, in ms.

    Args:
        fn: the function, without arguments.
        msg: printed before the time.
        printfn: prints; as `get_print_fn` says if None.

    Returns:
        What the function returns.

    Example:
        >>> import torch_go_xla.utils.utils as xu
        >>> xu.timed(lambda: 1 + 1, "sum: ", print)
        sum: 0.0...ms
        2
    """
    with TimedScope(msg, printfn):
        return fn()


class TimedScope:
    """Prints how long a block took, in ms, unless `set_error` was called.

    Args:
        msg: printed before the time.
        printfn: prints; as `get_print_fn` says if None.

    Example:
        >>> import time, torch_go_xla.utils.utils as xu
        >>> with xu.TimedScope("slept: ", print):
        ...     time.sleep(0.01)
        slept: ...ms
        >>> with xu.TimedScope("failed: ", print) as scope:
        ...     scope.set_error(ValueError())
    """

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
        """Say that the block failed: nothing is printed.

        Args:
            error: the error.
        """
        self._error = error


# ---- processes and threads ----


def get_free_tcp_ports(n: int = 1) -> list[int]:
    """Return ports of this machine that were free a moment ago.

    Args:
        n: how many.

    Example:
        >>> import torch_go_xla.utils.utils as xu
        >>> len(xu.get_free_tcp_ports(2))
        2
    """
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) for _ in range(n)]
        for s in sockets:
            s.bind(("", 0))
        return [s.getsockname()[1] for s in sockets]


def parallel_work(num_workers: int, fn: Callable[..., Any], *args: Any) -> list[Any]:
    """Return ``list(map(fn, *args))``, computed by threads.

    Args:
        num_workers: how many threads.
        fn: the function. What a call raises is raised here.
        args: sequences of its arguments.

    Example:
        >>> import torch_go_xla.utils.utils as xu
        >>> xu.parallel_work(2, pow, [1, 2, 3], [2, 2, 2])
        [1, 4, 9]
    """
    with futures.ThreadPoolExecutor(max_workers=num_workers) as executor:
        return list(executor.map(fn, *args))
