"""Runs StableHLO bundles without torch: numpy arrays in, numpy arrays out, by the Go core and a PJRT plugin.

``torch_go_xla.stablehlo.save_as_stablehlo`` writes a bundle; a process that has no torch runs it::

    import torch_go_xla_runtime
    model = torch_go_xla_runtime.load("bundle")
    result = model(np.ones((2, 3), np.float32))

``PJRT_DEVICE`` names the device, as for torch_go_xla. A bundle is a directory::

    functions/forward.mlir   the program: weights, then inputs, are its arguments
    functions/forward.json   what the arguments and the results are
    data/NAME                a weight: its elements, dense, row-major, little-endian

A bundle may come from a stranger: everything in it is checked before it is used, and the program's text says only what
is computed. SECURITY.md says what a stranger's program can still do, which is to take time and memory.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ._bundle import Array, Folder, Signature, Weight, dtype_of, file_name

__all__ = ["Bundle", "Folder", "Program", "Signature", "Weight", "file_name", "flatten", "load", "unflatten"]


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


@functools.cache
def _library() -> Any:
    """Return the module of the Go core; its functions raise in forks."""
    root = _root()
    library = _module("torch_go_xla._go._goxla", next((root / "_go").glob("_goxla.*.so")))
    if "torch_go_xla._core" not in sys.modules:  # which does that too, with an error of its own
        os.register_at_fork(after_in_child=functools.partial(_lifetime().forbid, library, RuntimeError))
    return library


def _lifetime() -> ModuleType:
    return _module("torch_go_xla._lifetime", _root() / "_lifetime.py")


@functools.cache
def _ends() -> Any:
    """Return what frees programs and arrays that are gone, see its class."""
    return _lifetime().Ends()


def _core() -> Any:
    """Return the Go core with its device open."""
    root = _root()
    core = _module("torch_go_xla._control", root / "_control.py").Control(_library())
    if core.device_count() == 0:  # no device is open yet
        plugins = _module("torch_go_xla.plugins", root / "plugins.py")
        known = {row[0] for row in core.config_table()}
        core.open_device(json.dumps(plugins.device_settings(known)))
    return core


class Program:
    """A program on a device, of arrays that are named by handles of the core. `Bundle` has one.

    Args:
        text: the program, StableHLO.
        signature: what it takes and gives.
        device: the index of the device.

    Raises:
        RuntimeError: it cannot be compiled, or the signature is not the program's own. The message says why.

    Example:
        >>> from torch_go_xla_runtime import Program, Signature
        >>> x = {"type": 6, "dtype": "float32", "shape": [2]}
        >>> structure = {"in_structure": {"list": [0]}, "out_structure": 0}
        >>> signature = Signature.of({"weights": [], "inputs": [x], "outputs": [x], **structure})
        >>> text = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }"
        >>> program = Program(text, signature)
    """

    def __init__(self, text: str, signature: Signature, device: int = 0) -> None:
        self._core = _core()
        self._results = len(signature.outputs)
        described = {
            "arguments": [a.described() for a in signature.arguments],
            "results": [a.described() for a in signature.outputs],
        }
        self._id = self._core.load_program(device, text, json.dumps(described))
        _ends().when_gone(self, self._core.drop_replay, self._id)
        self._core.loaded(self._id)

    def __call__(self, arguments: Sequence[int]) -> list[int]:
        """Run it; the caller frees the results. It returns while the device computes."""
        _ends().release_gone()
        made: list[int] = self._core.replay(self._id, arguments, self._results)
        return made


class _Array:
    """An array on the device; it is freed after the object, when the next one is made or a call ends."""

    def __init__(self, core: Any, handle: int) -> None:
        self._core, self.handle = core, handle
        _ends().when_gone(self, core.free, handle)

    def numpy(self, description: Array) -> np.ndarray[Any, Any]:
        """Wait for the array and return a copy."""
        out = np.empty(description.shape, dtype_of(description.dtype))
        self._core.fetch(self.handle, out.ctypes.data, out.nbytes)
        return out


def flatten(structure: Any, value: Any, out: list[Any]) -> None:
    """Append the leaves of a value to a list, as a structure of a bundle numbers them.

    Args:
        structure: numbers in ``{"list": ...}``, ``{"tuple": ...}``, ``{"dict": ...}`` and ``{"constant": ...}``.
        value: lists, tuples and mappings of this structure.
        out: the list.

    Raises:
        ValueError: the value does not have this structure.

    Example:
        >>> from torch_go_xla_runtime import flatten
        >>> leaves = []
        >>> flatten({"dict": {"x": 0, "y": {"list": [1, 2]}}}, {"x": "a", "y": ["b", "c"]}, leaves)
        >>> leaves
        ['a', 'b', 'c']
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
    """Return a value of a structure of a bundle, with these leaves.

    Args:
        structure: as for `flatten`.
        leaves: the leaves, by their numbers.

    Example:
        >>> from torch_go_xla_runtime import unflatten
        >>> unflatten({"tuple": [1, {"dict": {"x": 0}}]}, ["a", "b"])
        ('b', {'x': 'a'})
    """
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
    """A program with its weights on a device. Call it as the exported module, with numpy arrays instead of tensors.

    Args:
        directory: the folder of the bundle.
        device: the index of the device.

    Raises:
        ValueError: it is not a bundle, or, at a call, the arguments are not of the structure, types and shapes that
            were exported. The message says what is wrong.
        OSError: a file cannot be read.
        RuntimeError: the device refuses the program.

    Example:
        >>> import tempfile, numpy as np, torch, torch_go_xla.stablehlo, torch_go_xla_runtime
        >>> folder = tempfile.mkdtemp()
        >>> torch_go_xla.stablehlo.save_torch_model_as_stablehlo(torch.nn.ReLU(), (torch.ones(2),), folder)
        >>> model = torch_go_xla_runtime.Bundle(folder)  # in a process that need not have torch
        >>> model(np.array([-1.0, 1.0], np.float32))
        array([0., 1.], dtype=float32)
    """

    def __init__(self, directory: str | os.PathLike[str], device: int = 0) -> None:
        folder = Folder(directory)
        self._core = _core()
        self._device = device
        self._signature, _ = folder.signature()
        self._program = Program(folder.program(), self._signature, device)
        self._weights = [self._place(folder.weight(w), w) for w in self._signature.weights]

    def _place(self, data: np.ndarray[Any, Any], description: Array) -> _Array:
        where = data.ctypes.data, data.nbytes, description.type, description.shape, self._device
        return _Array(self._core, self._core.place(*where))

    def _upload(self, value: Any, index: int) -> _Array:
        want = self._signature.inputs[index]
        x = np.ascontiguousarray(value, dtype_of(want.dtype) if np.ndim(value) == 0 else None)
        if x.dtype != dtype_of(want.dtype) or np.shape(value) != want.shape:
            raise ValueError(f"input {index}: expected {want}, got {x.dtype}{list(x.shape)}")
        return self._place(x, want)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program as the exported module was called; numpy arrays instead of tensors.

        ValueError if the arguments are not of the structure, types and shapes that were exported. Weights that the
        program changes (``buffers`` of the module) have their new values in the next call; arrays that it writes to
        have theirs.
        """
        try:
            return self._run(args, kwargs)
        finally:
            _ends().release_gone()

    def _run(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        leaves: list[Any] = []
        flatten(self._signature.in_structure, [args, kwargs], leaves)
        outputs = self._signature.outputs
        for o in outputs:
            x = None if o.writes is None else leaves[o.writes]
            if x is not None and not (isinstance(x, np.ndarray) and x.flags.writeable):
                raise ValueError(f"input {o.writes}: the program writes to it: expected a writeable array")
        inputs = [self._upload(x, i) for i, x in enumerate(leaves)]
        made = self._program([x.handle for x in (*self._weights, *inputs)])
        results = [_Array(self._core, handle) for handle in made]
        for x, o in zip(results, outputs, strict=True):
            if o.updates is not None:
                self._weights[o.updates] = x
        values = []
        for x, o in zip(results, outputs, strict=True):
            if o.writes is not None:
                np.copyto(leaves[o.writes], x.numpy(o))
            elif o.updates is None:
                values.append(x.numpy(o))
        return unflatten(self._signature.out_structure, values)


def load(directory: str | os.PathLike[str], device: int = 0) -> Bundle:
    """Return a bundle, loaded onto a device of the process; see `Bundle`.

    Args:
        directory: the folder of the bundle.
        device: the index of the device.

    Raises:
        ValueError: it is not a bundle; the message says why.
        OSError: a file cannot be read.

    Example:
        >>> import tempfile, numpy as np, torch, torch_go_xla.stablehlo, torch_go_xla_runtime
        >>> folder = tempfile.mkdtemp()
        >>> torch_go_xla.stablehlo.save_torch_model_as_stablehlo(torch.nn.ReLU(), (torch.ones(2),), folder)
        >>> torch_go_xla_runtime.load(folder)(np.array([-1.0, 1.0], np.float32))
        array([0., 1.], dtype=float32)
    """
    return Bundle(directory, device)
