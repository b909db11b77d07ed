"""Reads a bundle, which may come from a stranger: nothing of it is used before it is checked.

The core compares the types and shapes that are read here with the program's own (`engine.LoadProgram`), and refuses
programs that reach out of themselves. SECURITY.md says what is left to trust.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

# Bytes. Programs have no weights in them, and a description has one line a weight.
LARGEST_DESCRIPTION = 1 << 28
LARGEST_PROGRAM = 1 << 30
# Levels of the structure of arguments and results.
DEEPEST = 100


def dtype_of(name: str) -> np.dtype[Any]:
    """Return a type of numpy; those that numpy lacks (bfloat16, float8) are ml_dtypes'.

    ValueError if it has none of this name whose elements are numbers.
    """
    known: np.dtype[Any]
    if name in ("bfloat16",) or name.startswith("float8_"):
        import ml_dtypes

        known = np.dtype(getattr(ml_dtypes, name, None))
    else:
        scalar = getattr(np, name if name != "bool" else "bool_", None)
        known = np.dtype(scalar if isinstance(scalar, type) and issubclass(scalar, np.number | np.bool_) else None)
    if known.name != name:
        raise ValueError(f"{name!r:.100} is not the name of a type of numbers")
    return known


@dataclass(frozen=True)
class Array:
    """What an argument or a result is."""

    type: int  # the number of its c10::ScalarType
    dtype: str  # its name in torch; the core knows which names and numbers belong together
    shape: tuple[int, ...]

    def described(self) -> dict[str, Any]:
        """Return it as `engine.LoadProgram` reads it."""
        return {"type": self.type, "dtype": self.dtype, "shape": self.shape}

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


@dataclass(frozen=True)
class Weight(Array):
    """What a weight is, and the name of its file.

    Example:
        >>> from torch_go_xla_runtime import Weight
        >>> print(Weight(6, "float32", (2, 3), name="linear.weight"))
        float32[2, 3]
    """

    name: str


@dataclass(frozen=True)
class Output(Array):
    """What a result is: a value to return, or the new value of a weight or of an input."""

    updates: int | None  # the number of a weight
    writes: int | None  # the number of an input


@dataclass(frozen=True)
class Signature:
    """What a program takes and gives, checked for itself.

    Example:
        >>> from torch_go_xla_runtime import Signature
        >>> x = {"type": 6, "dtype": "float32", "shape": [2]}
        >>> structure = {"in_structure": {"list": [0]}, "out_structure": 0}
        >>> meta = {"weights": [{"name": "w", **x}], "inputs": [x], "outputs": [x], **structure}
        >>> [str(argument) for argument in Signature.of(meta).arguments]
        ['float32[2]', 'float32[2]']
    """

    weights: tuple[Weight, ...]
    inputs: tuple[Array, ...]
    outputs: tuple[Output, ...]
    in_structure: Any
    out_structure: Any

    @property
    def arguments(self) -> tuple[Array, ...]:
        """All of the program's arguments: the weights, then the inputs."""
        return (*self.weights, *self.inputs)

    @classmethod
    def of(cls, meta: Any) -> Signature:
        """Return the checked contents of ``forward.json``.

        Args:
            meta: what ``json.loads`` makes of the file.

        Raises:
            ValueError: it is not the description of a program. The message says what is wrong.
        """
        fields = _object(meta, "a bundle", {"weights": list, "inputs": list, "outputs": list})
        weights = tuple(_weight(w) for w in fields["weights"])
        numbers = {w.name: i for i, w in enumerate(weights)}
        if len(numbers) < len(weights):
            raise ValueError("two weights of the bundle have the same name")
        inputs = tuple(_array(a) for a in fields["inputs"])
        outputs = tuple(_output(o, weights, numbers, inputs) for o in fields["outputs"])
        _structure(meta.get("in_structure"), len(inputs), "in_structure")
        returned = sum(o.updates is None and o.writes is None for o in outputs)
        _structure(meta.get("out_structure"), returned, "out_structure")
        return cls(weights, inputs, outputs, meta["in_structure"], meta["out_structure"])


def _object(value: Any, what: str, fields: dict[str, type]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} is described by an object, not {value!r:.100}")
    for name, kind in fields.items():
        if type(value.get(name)) is not kind:
            raise ValueError(f"{what} has no {name} of type {kind.__name__}: {value.get(name)!r:.100}")
    return value


def _parts(value: Any, what: str) -> tuple[int, str, tuple[int, ...]]:
    fields = _object(value, what, {"type": int, "dtype": str, "shape": list})
    shape = fields["shape"]
    if len(shape) > 64 or any(type(n) is not int or not 0 <= n < 1 << 63 for n in shape):
        raise ValueError(f"{what} has no shape of at most 64 sizes: {shape!r:.100}")
    return fields["type"], fields["dtype"], tuple(shape)


def _array(value: Any) -> Array:
    return Array(*_parts(value, "an input"))


def _weight(value: Any) -> Weight:
    name = _object(value, "a weight", {"name": str})["name"]
    return Weight(*_parts(value, f"weight {name!r:.100}"), name=file_name(name))


def _output(value: Any, weights: tuple[Weight, ...], numbers: dict[str, int], inputs: tuple[Array, ...]) -> Output:
    parts = _parts(value, "an output")
    updates, writes = value.get("updates"), value.get("writes")
    target: Array | None = None
    if updates is not None:
        if writes is not None or not isinstance(updates, str) or updates not in numbers:
            raise ValueError(f"an output updates {updates!r:.100}, which is not a weight")
        updates = numbers[updates]
        target = weights[updates]
    elif writes is not None:
        if type(writes) is not int or not 0 <= writes < len(inputs):
            raise ValueError(f"an output writes to input {writes!r:.100}, of {len(inputs)}")
        target = inputs[writes]
    if target is not None and (target.type, target.dtype, target.shape) != parts:
        raise ValueError(f"an output of {parts} is to replace {target}")
    return Output(*parts, updates=updates, writes=writes)


def _structure(value: Any, leaves: int, what: str, depth: int = 0) -> None:
    """Check a structure at its top, where it must name each of so many leaves once."""
    found: list[int] = []
    _collect(value, found, what, depth)
    if sorted(found) != list(range(leaves)):
        raise ValueError(f"{what} numbers {found!r:.100}, there are {leaves}")


def _collect(value: Any, found: list[int], what: str, depth: int) -> None:
    if depth > DEEPEST:
        raise ValueError(f"{what} is deeper than {DEEPEST} levels")
    if type(value) is int:
        found.append(value)
        return
    if not isinstance(value, dict) or len(value) != 1:
        raise ValueError(f"{what} has {value!r:.100}, which is not a structure")
    ((kind, inner),) = value.items()
    if kind == "constant":
        return
    wanted: dict[str, tuple[type, Callable[[Any], Any]]] = {
        "dict": (dict, dict.values),
        "list": (list, iter),
        "tuple": (list, iter),
    }
    if kind not in wanted or type(inner) is not wanted[kind][0]:
        raise ValueError(f"{what} has {value!r:.100}, which is not a structure")
    for part in wanted[kind][1](inner):
        _collect(part, found, what, depth + 1)


def file_name(name: str) -> str:
    """Return a weight's name if it is the name of a file in the bundle's folder.

    Args:
        name: the name.

    Raises:
        ValueError: it is not, as one with a slash.

    Example:
        >>> from torch_go_xla_runtime import file_name
        >>> file_name("linear.weight")
        'linear.weight'
        >>> file_name("../secret")
        Traceback (most recent call last):
        ValueError: a weight is named '../secret', which is not the name of a file in the bundle
    """
    if name in ("", ".", "..") or len(name.encode()) > 255 or any(c in name for c in "/\\\0"):
        raise ValueError(f"a weight is named {name!r:.100}, which is not the name of a file in the bundle")
    return name


class Folder:
    """A bundle's directory. Its files are regular ones that lie in it: links are not followed.

    Args:
        directory: the path of the directory, which is opened at the first read.

    Example:
        >>> import tempfile, torch, torch_go_xla.stablehlo
        >>> from torch_go_xla_runtime import Folder
        >>> path = tempfile.mkdtemp()
        >>> torch_go_xla.stablehlo.save_torch_model_as_stablehlo(torch.nn.Linear(3, 2), (torch.ones(1, 3),), path)
        >>> folder = Folder(path)
        >>> signature, meta = folder.signature()
        >>> [(w.name, folder.weight(w).size) for w in signature.weights]  # in bytes
        [('weight', 24), ('bias', 8)]
        >>> folder.program() == folder.text("functions", "forward.mlir", most=1 << 20)
        True
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._root = Path(directory)

    @contextmanager
    def _open(self, part: str, name: str) -> Iterator[int]:
        """Open a file for reading, without waiting for it."""
        shown = self._root / part / name
        flags = os.O_RDONLY | os.O_CLOEXEC
        at = os.open(self._root, flags | os.O_DIRECTORY)
        try:
            inner = os.open(part, flags | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
        finally:
            os.close(at)
        try:
            file = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=inner)
        except OSError as e:
            e.filename = str(shown)
            raise
        finally:
            os.close(inner)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise ValueError(f"{shown} is not a regular file")
            yield file
        finally:
            os.close(file)

    def text(self, part: str, name: str, most: int) -> str:
        """Return the text of a file.

        Args:
            part: the folder in the bundle: ``functions`` or ``data``.
            name: the name of the file.
            most: how many bytes it may have.

        Raises:
            ValueError: it has more bytes, or is not a regular file.
            OSError: it cannot be read.
        """
        with self._open(part, name) as file:
            size = os.fstat(file).st_size
            if size > most:
                raise ValueError(f"{self._root / part / name} has {size} bytes, more than {most}")
            with os.fdopen(os.dup(file), "rb") as stream:
                return stream.read(most).decode()

    def signature(self) -> tuple[Signature, dict[str, Any]]:
        """Return what the program takes and gives, and the JSON that says so.

        Raises:
            ValueError: the description is not one of a program.
            OSError: it cannot be read.
        """
        text = self.text("functions", "forward.json", LARGEST_DESCRIPTION)
        try:
            meta = json.loads(text)
        except RecursionError:
            raise ValueError(f"forward.json is deeper than {DEEPEST} levels") from None
        return Signature.of(meta), meta

    def program(self) -> str:
        """Return the program's text.

        Raises:
            ValueError: it is too long, or not a regular file.
            OSError: it cannot be read.
        """
        return self.text("functions", "forward.mlir", LARGEST_PROGRAM)

    def weight(self, w: Weight) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Return the bytes of a weight.

        Args:
            w: the weight, of the bundle's signature.

        Raises:
            ValueError: there are more or fewer than its type and shape take.
            OSError: the file cannot be read.
        """
        want = dtype_of(w.dtype).itemsize
        for n in w.shape:
            want *= n
        with self._open("data", w.name) as file:
            size = os.fstat(file).st_size
            if size != want:
                raise ValueError(f"{self._root / 'data' / w.name} has {size} bytes, its description says {want}")
            out = np.empty(want, np.uint8)
            done = 0
            while done < want:
                n = os.readv(file, [out.data[done:]])
                if n == 0:
                    raise ValueError(f"{self._root / 'data' / w.name} becomes shorter while it is read")
                done += n
        return out
