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
from .utils import whole_file

__all__ = ["Compiled", "Loaded", "Lowered", "Topology", "compile", "get_topology_desc", "load", "lower", "topology"]

# The file of `Compiled.save`: a description as a line of JSON, then what the plugin has made of the program.
_FILE = "program"


class Topology:
    """Devices that need not be there; `topology` makes one."""

    def __init__(self, platform: str, described: Mapping[str, Any]) -> None:
        self._id: int = described["id"]
        #: The name of the plugin, such as ``CUDA``.
        self.platform = platform
        #: What the plugin says of its version.
        self.platform_version: str = described["version"]
        #: The devices: ``id``, ``process``, ``kind``, ``text`` and ``attributes`` of each.
        self.devices: list[dict[str, Any]] = described["devices"]
        #: What the plugin says of the topology as a whole.
        self.attributes: dict[str, Any] = described["attributes"] or {}
        native().when_gone(self, native().close_topology, self._id)

    @property
    def device_kind(self) -> str:
        """The model of the devices, such as ``TPU v5 lite``."""
        return str(self.devices[0]["kind"])

    def __repr__(self) -> str:
        return f"<topology of {len(self.devices)} {self.device_kind}>"


def topology(platform: str, name: str = "", *, devices: int | None = None, **options: plugins.OptionValue) -> Topology:
    """Describe devices to compile for.

    ``platform`` is a name that ``PJRT_DEVICE`` takes: its plugin must be installed, its devices need not be there.

    * ``"tpu"``: ``name`` is libtpu's, such as ``"v5e:2x4"``, which has 8 devices.
    * ``"cuda"``: ``name`` is ``a100``, ``h100`` or ``h200``; ``devices`` how many a machine has, 1 by default. For
      other models the option ``target_config`` has XLA's text, as in JAX.
    * ``"cpu"``: this machine's processor, as so many ``devices``.

    ValueError for a name that the plugin does not know, RuntimeError where the plugin is not installed.
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
    """Return `topology` by the names of ``jax.experimental.topologies.get_topology_desc``."""
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
    """A recorded call as a program; see `lower`."""

    def __init__(self, described: dict[str, Any], results: dict[str, Any]) -> None:
        self._described = described
        self._results = results

    def as_text(self) -> str:
        """Return the program as StableHLO."""
        return str(self._described["text"])

    def compile(self, topology: Topology, compiler_options: Mapping[str, Any] | None = None) -> Compiled:
        """Compile the program for the first devices of a topology: one, or as many as SPMD has here.

        ``compiler_options`` are options of XLA by name, without dashes. `CompileError` says why the compiler refuses
        the program.
        """
        flags = {**plugins.named(topology.platform).compile_options(), **(compiler_options or {})}
        program = native().compile_ahead(topology._id, json.dumps(self._described), json.dumps(flags))
        native().compiled_ahead(program)
        return Compiled(program, self, topology)


class Compiled:
    """A program that is compiled for devices elsewhere."""

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

        A program that was saved there before stays whole until the new one takes its place. ValueError if the call used
        or wrote a tensor that is not among its arguments, which `load` could not give it.
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
    """Record a call of a function as one program, as the next sync would compile it.

    Arguments are tensors on ``xla``, modules and optimizers that hold such, and trees of these; other values become
    part of the program. A tensor that was never written (``torch.empty``, ``Module.to_empty``) stands for one of its
    shape and takes no memory. The program donates what the function overwrites. New tensors that the function keeps
    elsewhere, such as gradients, are not among its results.

    The call counts: what it has written is computed by the next sync, from such tensors an error. RuntimeError if the
    function reads a value or syncs: then it is more than one program.
    """
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
    described = core.lower(device, handles, outs)
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
    """Record a call of a function and compile it for a topology; see `lower` and `Lowered.compile`."""
    return lower(function, *args).compile(topology, compiler_options)


class Loaded:
    """A program that was compiled elsewhere, on this machine's device; see `load`."""

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
    """Load a program that `Compiled.save` has written, on a device of this process.

    What is loaded is machine code: load what comes from someone you trust. RuntimeError if the device is not of the
    platform that the program was compiled for, or its plugin does not take the program.
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
