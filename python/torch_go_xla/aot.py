"""Programs compiled for devices that are elsewhere: compile here for there, save, load there.

The plugins of vendors compile for devices that are absent. So a machine without a GPU or TPU can say whether a step
compiles for one, what memory it needs and which collectives it has::

    import torch, torch_go_xla
    from torch_go_xla import aot

    there = aot.topology("cuda", "h100")
    compiled = aot.compile(step, (model, optimizer, x, y), there)
    print(compiled.memory_analysis()["Temp"], compiled.as_text())
    compiled.save("step")

On a machine with the device, and with the same version of its plugin::

    step = aot.load("step")
    loss = step(model, optimizer, x, y)

Names are those of ``jax.experimental.topologies`` and of JAX's lowered and compiled functions where they exist.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from . import plugins
from ._backend import eager
from ._backend.core import is_xla, native, scalar_type
from ._backend.errors import CompileError
from .utils import whole_file

__all__ = ["Compiled", "Loaded", "Lowered", "Topology", "compile", "get_topology_desc", "load", "lower", "topology"]

# The file of `Compiled.save`: a description as a line of JSON, then what the plugin has made of the program.
_FILE = "program"


class Topology:
    """Devices that need not be there; `topology` makes one.

    Args:
        platform: the name of the plugin.
        described: what the plugin says of the devices.

    Attributes:
        platform: the name of the plugin, such as ``CUDA``.
        platform_version: what the plugin says of its version.
        devices: ``id``, ``process``, ``kind``, ``text`` and ``attributes`` of each device.
        attributes: what the plugin says of the topology as a whole.

    Example:
        >>> from torch_go_xla import aot
        >>> here = aot.topology("cpu", devices=2)
        >>> here.platform, here.device_kind, len(here.devices)
        ('CPU', 'cpu', 2)
    """

    def __init__(self, platform: str, described: Mapping[str, Any]) -> None:
        self._id: int = described["id"]
        self.platform = platform
        self.platform_version: str = described["version"]
        self.devices: list[dict[str, Any]] = described["devices"]
        self.attributes: dict[str, Any] = described["attributes"] or {}
        native().when_gone(self, native().close_topology, self._id)

    @property
    def device_kind(self) -> str:
        """The model of the devices, such as ``TPU v5 lite``."""
        return str(self.devices[0]["kind"])

    def __repr__(self) -> str:
        return f"<topology of {len(self.devices)} {self.device_kind}>"


def topology(platform: str, name: str = "", *, devices: int | None = None, **options: plugins.OptionValue) -> Topology:
    """Return devices to compile for. Their plugin must be installed; the devices need not be there.

    Args:
        platform: a name that ``PJRT_DEVICE`` takes, such as ``"cuda"``.
        name: of ``"tpu"`` libtpu's name, such as ``"v5e:2x4"``, which has 8 devices; of ``"cuda"`` the model: ``a100``,
            ``h100`` or ``h200``. For ``"cpu"`` it is empty: the processor is that of this machine.
        devices: how many devices a machine has, for ``"cuda"`` and ``"cpu"``; 1 by default.
        options: options of the plugin. For other models of GPUs ``target_config`` has XLA's text, as in JAX.

    Raises:
        ValueError: the plugin does not know the name.
        RuntimeError: the plugin is not installed.

    Example:
        >>> from torch_go_xla import aot
        >>> aot.topology("cpu", devices=4)
        <topology of 4 cpu>
    """
    plugin = plugins.named(platform)
    library = plugin.library_path()
    plugin.check_flags()
    for variable, value in plugin.environment().items():
        os.environ.setdefault(variable, value)
    name, defaults = plugin.topology_options(name, devices)
    settings = {"library": library, "preload": plugin.preload(), "options": {**defaults, **options}}
    return Topology(platform.upper(), native().open_topology(name, json.dumps(settings)))


def get_topology_desc(
    topology_name: str = "",
    platform: str | None = None,
    *,
    devices: int | None = None,
    **options: plugins.OptionValue,
) -> Topology:
    """Return `topology` by the names of ``jax.experimental.topologies.get_topology_desc``.

    Args:
        topology_name: see `topology`, as for the others.
        platform: a name that ``PJRT_DEVICE`` takes; ``"tpu"`` by default.
        devices: how many devices a machine has.
        options: options of the plugin.

    Raises:
        ValueError: the plugin does not know the name.
        RuntimeError: the plugin is not installed.

    Example:
        >>> from torch_go_xla import aot
        >>> aot.get_topology_desc(platform="cpu").device_kind
        'cpu'
    """
    return topology(platform or "tpu", topology_name, devices=devices, **options)


def _tensors(leaves: Sequence[Any]) -> list[torch.Tensor]:
    """Return the tensors on the device among the leaves of arguments: also those of modules and optimizers."""
    found: list[Any] = []
    for leaf in leaves:
        if isinstance(leaf, torch.nn.Module):
            found += [*leaf.parameters(), *leaf.buffers()]
        elif isinstance(leaf, torch.optim.Optimizer):
            for group in leaf.param_groups:
                found += pytree.tree_leaves([leaf.state.get(p) for p in group["params"]])
                found += pytree.tree_leaves(group)
        else:
            found.append(leaf)
    return [x for x in found if is_xla(x)]


def _handles(tensors: Sequence[torch.Tensor]) -> list[int]:
    """Return the storages of tensors, each once."""
    return list(dict.fromkeys(map(native().fast.handle, tensors)))


class Lowered:
    """A recorded call as a program; `lower` makes one.

    Args:
        described: the program and what it takes.
        results: what the call returned.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla import aot
        >>> lowered = aot.lower(torch.sin, torch.ones(4, device="xla"))
        >>> "stablehlo.sine" in lowered.as_text()
        True
        >>> lowered.compile(aot.topology("cpu")).topology
        <topology of 1 cpu>
    """

    def __init__(self, described: dict[str, Any], results: dict[str, Any]) -> None:
        self._described = described
        self._results = results

    def as_text(self) -> str:
        """Return the program as StableHLO."""
        return str(self._described["text"])

    def compile(self, topology: Topology, compiler_options: Mapping[str, Any] | None = None) -> Compiled:
        """Return the program compiled for the first devices of a topology: one, or as many as SPMD has here.

        Args:
            topology: the devices.
            compiler_options: options of XLA by name, without dashes.

        Raises:
            CompileError: the compiler refuses the program; the message says why.
        """
        if topology.platform == "CPU" and "annotate_device_placement" in self.as_text():
            raise CompileError("the CPU has one memory and the program places values in memories: use aot.compile")
        flags = {**plugins.named(topology.platform).compile_options(), **(compiler_options or {})}
        program = native().compile_ahead(topology._id, json.dumps(self._described), json.dumps(flags))
        native().compiled_ahead(program)
        return Compiled(program, self, topology)


class Compiled:
    """A program that is compiled for devices elsewhere; `compile` makes one.

    Args:
        program: its number in the core.
        lowered: what it was compiled from.
        topology: what it was compiled for.

    Attributes:
        topology: what it was compiled for.

    Example:
        >>> import tempfile, torch, torch_go_xla
        >>> from torch_go_xla import aot
        >>> x = torch.ones(4, 4, device="xla")  # 64 bytes
        >>> compiled = aot.compile(torch.mm, (x, x), aot.topology("cpu"))
        >>> compiled.memory_analysis()["Output"]
        64
        >>> compiled.cost_analysis().get("flops", "not told"), compiled.as_text().startswith("HloModule")
        (..., True)
        >>> compiled.analysis()["collectives"]
        []
        >>> compiled.save(tempfile.mkdtemp())
    """

    def __init__(self, program: int, lowered: Lowered, topology: Topology) -> None:
        self._id = program
        self._lowered = lowered
        self.topology = topology
        native().when_gone(self, native().drop_ahead, program)

    def memory_analysis(self) -> dict[str, int]:
        """Return what one run needs on each device, in bytes.

        ``Argument``, ``Output``, ``Temp``, ``GeneratedCode``; ``Alias`` is what results take over from donated
        arguments. Those with ``Host`` in front are in the host's memory. Figures that a plugin does not give are 0.
        """
        return native().ahead_memory(self._id)

    def cost_analysis(self) -> dict[str, Any]:
        """Return the compiler's estimate of one run, such as ``flops``; empty where the plugin has none."""
        return native().ahead_cost(self._id)

    def as_text(self) -> str:
        """Return the program as the compiler left it, as HLO; literals and configurations are left out."""
        return native().ahead_text(self._id)

    def analysis(self) -> dict[str, Any]:
        """Return what the compiler made of the program.

        ``ops`` counts its instructions, ``custom_calls`` the calls of libraries by target; ``collectives`` has kind,
        shapes, bytes and groups of each, ``aliases`` the donated parameters and ``host_transfers`` names.
        """
        return native().ahead_program(self._id)

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write the program to a directory, for `load` on a machine that has the device.

        A program that was saved there before stays whole until the new one takes its place.

        Args:
            directory: the directory, which is made if it is not there.

        Raises:
            ValueError: the call used or wrote a tensor that is not among its arguments, which `load` could not give it.
            OSError: the file cannot be written.
        """
        described = self._lowered._described
        if described["reason"]:
            raise ValueError(f"the program cannot be loaded elsewhere: {described['reason']}")
        meta = {
            "platform": self.topology.platform,
            "kind": self.topology.device_kind,
            "version": self.topology.platform_version,
            "results": self._lowered._results,
            "program": described,
        }
        executable = base64.b64decode(native().ahead_executable(self._id))
        root = Path(directory)
        root.mkdir(parents=True, exist_ok=True)
        with whole_file.replacing(root / _FILE) as file:
            file.write(memoryview(json.dumps(meta).encode() + b"\n"))
            file.write(memoryview(executable))


def lower(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Lowered:
    """Record a call of a function and return it as one program, as the next sync would compile it.

    A tensor that was never written (``torch.empty``, ``Module.to_empty``) stands for one of its shape and takes no
    memory. The program donates what the function overwrites. New tensors that the function keeps elsewhere, such as
    gradients, are not among its results.

    The function does run: the next sync computes what it has written. From a tensor that was never written, that is an
    error.

    Args:
        function: the function.
        args: tensors on ``xla``, modules and optimizers that hold such, and trees of these. Other values become part of
            the program.
        kwargs: likewise.

    Raises:
        RuntimeError: the function reads a value or syncs, and so is more than one program.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla import aot
        >>> weight = torch.empty(1000, 1000, device="xla")  # stands for a weight
        >>> lowered = aot.lower(torch.mm, torch.ones(8, 1000, device="xla"), weight)
        >>> "stablehlo.dot_general" in lowered.as_text()
        True
    """
    return _lower(function, args, kwargs)


def _lower(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], platform: str = "") -> Lowered:
    """Lower a call for a platform, or for all but the CPU."""
    core = native()
    core.open()
    leaves = pytree.tree_leaves((args, kwargs))
    given = _tensors(leaves)
    device = core.fast.device_of(given)
    core.sync_all(device, wait=False)
    handles = _handles(given)
    for x in given:
        handle, items = core.fast.handle(x), x.untyped_storage().nbytes() // x.element_size()
        if core.describe(handle)["state"] == "empty":
            core.placeholder(handle, scalar_type(x.dtype), tuple(x.shape) if x.numel() == items else (items,))
    before = core.syncs()
    with eager.recorded_whole():
        result = function(*args, **kwargs)
    if core.syncs() != before:
        raise RuntimeError("the function is more than one program: it reads a value or syncs")
    leaves, tree = pytree.tree_flatten(result)
    outs = _handles([x for x in leaves if is_xla(x)])
    described = core.lower(device, platform, handles, outs)
    return Lowered(described, {"tree": pytree.treespec_dumps(tree), "leaves": [_leaf(x, outs) for x in leaves]})


def _leaf(x: Any, outs: Sequence[int]) -> Any:
    """Describe a leaf of a result: a view of a new storage, or a value."""
    if not is_xla(x):
        return {"value": x if isinstance(x, bool | int | float | str | None) else repr(x)}
    dtype = str(x.dtype).removeprefix("torch.")
    size, stride = list(x.shape), list(x.stride())
    return {
        "storage": outs.index(native().fast.handle(x)),
        "dtype": dtype,
        "size": size,
        "stride": stride,
        "offset": x.storage_offset(),
        "items": x.untyped_storage().nbytes() // x.element_size(),
    }


def compile(
    function: Callable[..., Any],
    args: Sequence[Any],
    topology: Topology,
    compiler_options: Mapping[str, Any] | None = None,
) -> Compiled:
    """Record a call of a function and return it compiled for a topology; see `lower` and `Lowered.compile`.

    Args:
        function: the function.
        args: its arguments.
        topology: the devices.
        compiler_options: options of XLA by name, without dashes.

    Raises:
        CompileError: the compiler refuses the program; the message says why.
        RuntimeError: the function reads a value or syncs, and so is more than one program.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla import aot
        >>> compiled = aot.compile(torch.sin, (torch.ones(4, device="xla"),), aot.topology("cpu"))
        >>> compiled.memory_analysis()["Argument"]  # bytes
        16
    """
    return _lower(function, args, {}, topology.platform).compile(topology, compiler_options)


class Loaded:
    """A program that was compiled elsewhere, on this machine's device; `load` makes one, calling it runs it.

    Args:
        program: its number in the core.
        arguments: how many tensors it takes.
        results: what a call returns.

    Example:
        >>> import tempfile, torch, torch_go_xla
        >>> from torch_go_xla import aot
        >>> x, place = torch.ones(2, device="xla"), tempfile.mkdtemp()
        >>> aot.compile(torch.neg, (x,), aot.topology("cpu")).save(place)
        >>> aot.load(place)(x).tolist()
        [-1.0, -1.0]
    """

    def __init__(self, program: int, arguments: int, results: Mapping[str, Any]) -> None:
        self._id = program
        self._arguments = arguments
        self._leaves = results["leaves"]
        self._tree = pytree.treespec_loads(results["tree"])
        native().when_gone(self, native().drop_replay, program)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run it on arguments like those that it was lowered for; ValueError if they are not.

        Tensors that the function wrote to are written to. Results have no gradient functions.
        """
        core = native()
        given = _tensors(pytree.tree_leaves((args, kwargs)))
        handles = _handles(given)
        if len(handles) != self._arguments:
            raise ValueError(f"the program takes {self._arguments} tensors, there are {len(handles)}")
        count = 1 + max((leaf["storage"] for leaf in self._leaves if "storage" in leaf), default=-1)
        made = core.replay(self._id, handles, count)
        device = core.fast.device_of(given)
        bases: dict[int, torch.Tensor] = {}
        results: list[Any] = []
        for leaf in self._leaves:
            if "storage" not in leaf:
                results.append(leaf["value"])
                continue
            k, dtype = leaf["storage"], getattr(torch, leaf["dtype"])
            if k not in bases:
                bases[k] = core.fast.new_tensor(made[k], scalar_type(dtype), device, (leaf["items"],))
            base = bases[k]
            if base.dtype != dtype:
                base = torch.empty(0, dtype=dtype, device=base.device).set_(base.untyped_storage())
            results.append(base.as_strided(leaf["size"], leaf["stride"], leaf["offset"]))
        return pytree.tree_unflatten(results, self._tree)


def load(directory: str | os.PathLike[str], device: int = 0) -> Loaded:
    """Return a program that `Compiled.save` has written, loaded on a device of this process.

    What is loaded is machine code: load only what comes from someone you trust.

    Args:
        directory: where the program was saved.
        device: the index of the device.

    Raises:
        RuntimeError: the device is not of the platform that the program was compiled for, or its plugin refuses the
            program.
        OSError: the file cannot be read.

    Example:
        >>> import tempfile, torch, torch_go_xla
        >>> from torch_go_xla import aot
        >>> x, place = torch.ones(2, device="xla"), tempfile.mkdtemp()
        >>> aot.compile(torch.exp2, (x,), aot.topology("cpu")).save(place)
        >>> step = aot.load(place)
        >>> step(x).tolist()
        [2.0, 2.0]
    """
    described, _, executable = (Path(directory) / _FILE).read_bytes().partition(b"\n")
    meta = json.loads(described)
    core = native()
    core.open()
    here = core.devices()[device]
    if here["platform"].upper() != meta["platform"] or here["kind"] != meta["kind"]:
        raise RuntimeError(
            f"the program is for {meta['platform']} ({meta['kind']}), "
            f"device {device} is {here['platform'].upper()} ({here['kind']})"
        )
    program = core.load_lowered(device, json.dumps(meta["program"]), base64.b64encode(executable).decode())
    return Loaded(program, meta["program"]["arguments"], meta["results"])
