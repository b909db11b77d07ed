"""Runs StableHLO bundles without torch: numpy arrays in, numpy arrays out, by the Go core and a PJRT plugin.

``torch_go_xla.stablehlo.save_as_stablehlo`` writes a bundle; a process that has no torch runs it::

    import torch_go_xla_runtime
    model = torch_go_xla_runtime.load("bundle")
    result = model(np.ones((2, 3), np.float32))

``PJRT_DEVICE`` names the device, as for torch_go_xla. A bundle is a directory::

    functions/forward.mlir   the program: weights, then inputs, are its arguments
    functions/forward.json   what the arguments and the results are
    data/NAME                a weight: its elements, dense, row-major, little-endian
"""

from __future__ import annotations

import array
import importlib.util
import json
import mmap
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

__all__ = ["Bundle", "Program", "flatten", "load", "unflatten"]

# How long a wait stays in the core before Python looks for signals, in ms.
_SLICE = 50


def _module(name: str, path: Path) -> ModuleType:
    """Return a module of torch_go_xla; it is loaded from its file, as its package would load torch."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules[name] = module
    return sys.modules[name]


def _root() -> Path:
    spec = importlib.util.find_spec("torch_go_xla")  # does not load it
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("torch_go_xla is not installed")
    return Path(spec.submodule_search_locations[0])


def _core() -> Any:
    """Return the Go core with its device open."""
    root = _root()
    library = next((root / "_go").glob("_goxla.*.so"))
    core = _module("torch_go_xla._go._goxla", library)
    if core.bindings_DeviceCount() == 0:  # no device is open yet
        plugins = _module("torch_go_xla.plugins", root / "plugins.py")
        known = {row[0] for row in json.loads(core.bindings_ConfigTable())}
        core.bindings_Open(json.dumps(plugins.device_settings(known)))
    return core


def _dtype(name: str) -> np.dtype[Any]:
    """Return a type of numpy; those that numpy lacks (bfloat16, float8) are ml_dtypes'."""
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        extended: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return extended


class Program:
    """A program on a device, of arrays that are named by handles of the core."""

    def __init__(
        self, text: str, arguments: Sequence[Mapping[str, Any]], results: Sequence[Mapping[str, Any]], device: int = 0
    ) -> None:
        """Compile StableHLO text. RuntimeError says why it cannot be compiled."""
        self._core = _core()
        self._results = len(results)
        described = {
            kind: [[a["type"], *a["shape"]] for a in arrays]
            for kind, arrays in (("arguments", arguments), ("results", results))
        }
        self._drop = self._core.bindings_DropReplay  # at the end of the process the module is emptied first
        self._id = self._core.bindings_LoadProgram(device, text, json.dumps(described))

    def __del__(self) -> None:
        if getattr(self, "_id", 0):
            self._drop(self._id)

    def __call__(self, arguments: Sequence[int]) -> list[int]:
        """Run it; the caller frees the results. It returns while the device computes."""
        given, made = array.array("q", arguments), array.array("q", bytes(8 * self._results))
        where = given.buffer_info()[0], len(given), made.buffer_info()[0], len(made)
        if not self._core.bindings_Replay(self._id, *where):
            raise ValueError("an argument has another type or shape than the program's, or lies on another device")
        return list(made)


class _Array:
    """An array on the device; it is freed with the object."""

    def __init__(self, core: Any, handle: int) -> None:
        self._core, self._free, self.handle = core, core.bindings_Free, handle

    def __del__(self) -> None:
        self._free(self.handle)

    def numpy(self, description: Mapping[str, Any]) -> np.ndarray[Any, Any]:
        """Wait for the array and return a copy."""
        out = np.empty(description["shape"], _dtype(description["dtype"]))
        while not self._core.bindings_Ready(self.handle, _SLICE):
            pass
        self._core.bindings_Fetch(self.handle, out.ctypes.data, out.nbytes)
        return out


def flatten(structure: Any, value: Any, out: list[Any]) -> None:
    """Append the leaves of a value to a list, as a structure of a bundle numbers them.

    ValueError if the value has not this structure.
    """
    if isinstance(structure, int):
        out.append(value)
        return
    ((kind, inner),) = structure.items()
    if kind == "constant":
        if value != inner:
            raise ValueError(f"the program was exported for the value {inner!r}, not {value!r}")
        return
    items = list(inner.items()) if kind == "dict" else list(enumerate(inner))
    if isinstance(value, Mapping) != (kind == "dict") or not hasattr(value, "__len__") or len(value) != len(items):
        raise ValueError(f"expected a {kind} of {len(items)} values, got {value!r:.200}")
    for key, part in items:
        if kind == "dict" and key not in value:
            raise ValueError(f"there is no value for {key!r}")
        flatten(part, value[key], out)


def unflatten(structure: Any, leaves: Sequence[Any]) -> Any:
    """Return a value of a structure of a bundle, with these leaves."""
    if isinstance(structure, int):
        return leaves[structure]
    ((kind, inner),) = structure.items()
    if kind == "constant":
        return inner
    if kind == "dict":
        return {k: unflatten(v, leaves) for k, v in inner.items()}
    values = [unflatten(v, leaves) for v in inner]
    return tuple(values) if kind == "tuple" else values


class Bundle:
    """A program with its weights on a device."""

    def __init__(self, directory: str | os.PathLike[str], device: int = 0) -> None:
        """Load a bundle."""
        root = Path(directory)
        self._core = _core()
        self._device = device
        meta = json.loads((root / "functions" / "forward.json").read_text())
        self._inputs: list[dict[str, Any]] = meta["inputs"]
        self._outputs: list[dict[str, Any]] = meta["outputs"]
        self._in, self._out = meta["in_structure"], meta["out_structure"]
        weights = meta["weights"]
        self._places = {w["name"]: i for i, w in enumerate(weights)}
        self._program = Program(
            (root / "functions" / "forward.mlir").read_text(), [*weights, *self._inputs], self._outputs, device
        )
        self._weights = [self._read(root / "data" / w["name"], w) for w in weights]

    def _place(self, address: int, description: Mapping[str, Any]) -> _Array:
        dims = array.array("q", description["shape"])
        where = dims.buffer_info()[0], len(dims), self._device
        return _Array(self._core, self._core.bindings_Place(address, description["type"], *where))

    def _read(self, path: Path, description: Mapping[str, Any]) -> _Array:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            want = int(np.prod(description["shape"], dtype=np.int64)) * _dtype(description["dtype"]).itemsize
            if size != want:
                raise ValueError(f"{path} has {size} bytes, its description says {want}")
            data: Any = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
            return self._place(np.frombuffer(data, np.uint8).ctypes.data, description)

    def _upload(self, value: Any, place: int) -> _Array:
        want = self._inputs[place]
        x = np.ascontiguousarray(value, _dtype(want["dtype"]) if np.ndim(value) == 0 else None)
        if x.dtype != _dtype(want["dtype"]) or list(np.shape(value)) != want["shape"]:
            raise ValueError(f"input {place}: expected {want['dtype']}{want['shape']}, got {x.dtype}{list(x.shape)}")
        return self._place(x.ctypes.data, want)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program as the exported module was called; numpy arrays instead of tensors.

        ValueError if the arguments are not of the structure, types and shapes that were exported. Weights that the
        program changes (``buffers`` of the module) have their new values in the next call; arrays that it writes to
        have theirs.
        """
        leaves: list[Any] = []
        flatten(self._in, [args, kwargs], leaves)
        for o in self._outputs:
            x = leaves[o["writes"]] if "writes" in o else None
            if x is not None and not (isinstance(x, np.ndarray) and x.flags.writeable):
                raise ValueError(f"input {o['writes']}: the program writes to it: expected a writeable array")
        inputs = [self._upload(x, i) for i, x in enumerate(leaves)]
        made = self._program([x.handle for x in (*self._weights, *inputs)])
        results = [_Array(self._core, handle) for handle in made]
        for x, o in zip(results, self._outputs, strict=True):
            if "updates" in o:
                self._weights[self._places[o["updates"]]] = x
        values = []
        for x, o in zip(results, self._outputs, strict=True):
            if "writes" in o:
                np.copyto(leaves[o["writes"]], x.numpy(o))
            elif "updates" not in o:
                values.append(x.numpy(o))
        return unflatten(self._out, values)


def load(directory: str | os.PathLike[str], device: int = 0) -> Bundle:
    """Load a bundle onto a device of the process; see `Bundle`."""
    return Bundle(directory, device)
