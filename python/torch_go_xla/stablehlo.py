"""Exported programs as StableHLO: torch_xla's ``torch_xla.stablehlo``.

::

    exported = torch.export.export(model, (x,))
    shlo = exported_program_to_stablehlo(exported)
    print(shlo.get_stablehlo_text())
    y = shlo(x)                  # runs it on the device
    shlo.save("bundle")          # torch_go_xla_runtime runs this without torch
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, InputSpec, OutputKind, TensorArgument
from torch.utils import _pytree as pytree

import torch_go_xla_runtime as runtime

from . import _absent
from ._backend.core import native, recording, scalar_type
from ._core import translate

__all__ = [
    "StableHLOExportOptions",
    "StableHLOGraphModule",
    "exported_program_to_stablehlo",
    "save_as_stablehlo",
    "save_torch_model_as_stablehlo",
]

_STATE = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


@dataclass
class StableHLOExportOptions:
    """How a program is exported.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.stablehlo import StableHLOExportOptions, exported_program_to_stablehlo
        >>> batch = {0: torch.export.Dim("batch")}
        >>> exported = torch.export.export(torch.nn.ReLU(), (torch.ones(2, 3),), dynamic_shapes=(batch,))
        >>> options = StableHLOExportOptions(override_tracing_arguments=(torch.ones(8, 3),))  # of a fixed size
        >>> exported_program_to_stablehlo(exported, options)(torch.ones(8, 3)).shape
        torch.Size([8, 3])
    """

    # Inputs of the shapes that the program is made for, instead of those that it was exported with.
    override_tracing_arguments: tuple[Any, ...] | None = None
    override_tracing_kwargs: dict[str, Any] | None = None
    # Whether save writes the weights.
    save_weights: bool = True


def _describe(x: torch.Tensor) -> dict[str, Any]:
    return {"type": scalar_type(x.dtype), "dtype": str(x.dtype).removeprefix("torch."), "shape": list(x.shape)}


def _structure(value: Any) -> Any:
    """Describe a tree whose leaves are numbers (and `_Constant`) for `torch_go_xla_runtime`."""
    if isinstance(value, int):
        return value
    if isinstance(value, _Constant):
        return {"constant": value.value}
    if isinstance(value, Mapping):
        return {"dict": {k: _structure(v) for k, v in value.items()}}
    if isinstance(value, tuple | list):
        return {"tuple" if isinstance(value, tuple) else "list": [_structure(v) for v in value]}
    raise NotImplementedError(f"a program whose arguments or results contain a {type(value).__name__} is not exported")


@dataclass
class _Constant:
    value: Any


def _tree(arguments: Sequence[Any], spec: Any) -> Any:
    """Return the structure of arguments of a graph signature: tensors are numbered."""
    count = 0
    leaves: list[Any] = []
    for a in arguments:
        if isinstance(a, TensorArgument):
            leaves.append(count)
            count += 1
        elif isinstance(a, ConstantArgument):
            leaves.append(_Constant(a.value))
        else:
            raise NotImplementedError(f"an argument or result of kind {type(a).__name__} is not exported")
    return _structure(pytree.tree_unflatten(leaves, spec))


def _on_xla(graph_module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Return a copy whose factories and copies name the device xla.

    It was traced with the strides of another device: a view that those allowed is a reshape.
    """
    moved = copy.deepcopy(graph_module)
    xla = torch.device("xla")

    def move(x: Any) -> Any:
        return xla if isinstance(x, torch.device) else x

    for module in moved.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        for node in list(module.graph.nodes):
            if node.target is torch.ops.aten._assert_tensor_metadata.default:
                module.graph.erase_node(node)
                continue
            if node.target is torch.ops.aten.view.default:
                node.target = torch.ops.aten.reshape.default
            node.args, node.kwargs = pytree.tree_map(move, node.args), pytree.tree_map(move, node.kwargs)
        module.recompile()
    return moved


def _placeholder(x: torch.Tensor) -> torch.Tensor:
    made = torch.empty(x.shape, dtype=x.dtype, device="xla")
    native().placeholder(native().fast.handle(made), scalar_type(x.dtype), x.shape)
    return made


@dataclass
class StableHLOGraphModule:
    """A program in StableHLO with its weights. Call it with tensors as the module that was exported.

    Example:
        >>> import tempfile, torch, torch_go_xla
        >>> from torch_go_xla.stablehlo import StableHLOGraphModule, exported_program_to_stablehlo
        >>> program = exported_program_to_stablehlo(torch.export.export(torch.nn.Linear(3, 2), (torch.ones(1, 3),)))
        >>> sorted(program.weights), "stablehlo.dot_general" in program.get_stablehlo_text()
        (['bias', 'weight'], True)
        >>> folder = tempfile.mkdtemp()
        >>> program.save(folder)
        >>> x = torch.ones(1, 3)
        >>> torch.equal(StableHLOGraphModule.load(folder)(x), program.evaluate("forward", (x,)))
        True
    """

    text: str
    meta: dict[str, Any]
    weights: dict[str, torch.Tensor]
    options: StableHLOExportOptions = field(default_factory=StableHLOExportOptions)

    def __post_init__(self) -> None:
        self._signature = runtime.Signature.of(self.meta)
        self._program: runtime.Program | None = None
        self._there: dict[str, torch.Tensor] = {}

    def get_stablehlo_text(self, method_name: str = "forward") -> str:
        """Return the program. Its arguments are the weights, then the inputs.

        Args:
            method_name: ``"forward"``.

        Raises:
            ValueError: there is no method of another name.
        """
        if method_name != "forward":
            raise ValueError(f"there is no method {method_name!r}, only 'forward'")
        return self.text

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program on the device ``xla``; tensors from elsewhere are copied there."""
        return self.evaluate("forward", args, kwargs)

    def evaluate(self, method_name: str, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> Any:
        """Run a method, as a call does. Buffers and inputs that the module writes to are written to.

        Args:
            method_name: ``"forward"``.
            args: tensors, on any device, of the types and shapes that were exported.
            kwargs: likewise.

        Returns:
            What the module returns, with tensors on the device ``xla``.

        Raises:
            ValueError: an argument is of another type or shape, or there is no such method.
            CompileError: the compiler refuses the program.
        """
        self.get_stablehlo_text(method_name)
        fast, meta = native().fast, self.meta
        if self._program is None:
            device = fast.current_device()
            native().device_count()  # opens the device
            try:
                self._program = runtime.Program(self.text, self._signature, device)
            except RuntimeError as error:
                raise translate(error) from None
            self._there = {name: w.to("xla") for name, w in self.weights.items()}
        leaves: list[Any] = []
        runtime.flatten(meta["in_structure"], [tuple(args), dict(kwargs or {})], leaves)
        inputs = [_input(i, x, want) for i, (x, want) in enumerate(zip(leaves, meta["inputs"], strict=True))]
        given = [*(self._there[w["name"]] for w in meta["weights"]), *inputs]
        made = self._program([fast.handle(x) for x in given])
        results = []
        for handle, o in zip(made, meta["outputs"], strict=True):
            x = fast.new_tensor(handle, o["type"], fast.current_device(), tuple(o["shape"]))
            if "updates" in o:
                self._there[o["updates"]] = x
            elif "writes" in o:
                with torch.no_grad():
                    leaves[o["writes"]].copy_(x)
            else:
                results.append(x)
        return runtime.unflatten(meta["out_structure"], results)

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write a bundle, which `load` and `torch_go_xla_runtime.load` read.

        Args:
            directory: the folder of the bundle, which is made if need be.

        Raises:
            OSError: a file cannot be written.
            ValueError: the name of a weight cannot be that of a file.
        """
        for name in self.weights:
            runtime.file_name(name)
        root = Path(directory)
        for part in ("functions", "data"):
            (root / part).mkdir(parents=True, exist_ok=True)
        (root / "functions" / "forward.mlir").write_text(self.text)
        (root / "functions" / "forward.json").write_text(json.dumps(self.meta, indent=1))
        if self.options.save_weights:
            for name, w in self.weights.items():
                host = w.detach().cpu().contiguous()
                (root / "data" / name).write_bytes(
                    host.view(-1).view(torch.uint8).numpy().data if host.numel() else b""
                )

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> StableHLOGraphModule:
        """Return the program of a bundle, which may come from a stranger.

        Args:
            directory: the folder of the bundle.

        Raises:
            ValueError: it is not a bundle; the message says why.
            OSError: a file cannot be read.
        """
        folder = runtime.Folder(directory)
        signature, meta = folder.signature()
        weights = {w.name: _tensor(folder.weight(w), w) for w in signature.weights}
        return cls(folder.program(), meta, weights)


def _input(place: int, x: Any, want: Mapping[str, Any]) -> torch.Tensor:
    if not isinstance(x, torch.Tensor) or _describe(x) != {k: want[k] for k in ("type", "dtype", "shape")}:
        got = f"{x.dtype}{list(x.shape)}" if isinstance(x, torch.Tensor) else repr(x)
        raise ValueError(f"input {place}: expected a tensor {want['dtype']}{want['shape']}, got {got:.200}")
    # A storage of its own, as large as the tensor.
    return x.detach().to("xla").clone(memory_format=torch.contiguous_format)


def _tensor(data: Any, description: runtime.Weight) -> torch.Tensor:
    """Return a weight of a bundle; `data` is its bytes."""
    dtype = getattr(torch, description.dtype, None)
    if not isinstance(dtype, torch.dtype) or scalar_type(dtype) != description.type:
        raise ValueError(f"weight {description.name!r}: type {description.type} is not {description.dtype!r:.100}")
    x = torch.from_numpy(data).view(dtype) if data.size else torch.empty(0, dtype=dtype)
    return x.view(description.shape)


def exported_program_to_stablehlo(
    exported_model: ExportedProgram, options: StableHLOExportOptions | None = None
) -> StableHLOGraphModule:
    """Return an exported program as StableHLO; nothing is computed.

    Sizes are those of the inputs that the program was exported with; if some of these are dynamic, those of
    ``override_tracing_arguments``.

    Args:
        exported_model: what ``torch.export.export`` returns.
        options: how it is exported.

    Raises:
        NotImplementedError: the program has no StableHLO: its sizes are dynamic or depend on values, or it draws random
            numbers.
        ValueError: the program has no example inputs.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.stablehlo import exported_program_to_stablehlo
        >>> program = exported_program_to_stablehlo(torch.export.export(torch.nn.ReLU(), (torch.ones(2),)))
        >>> print(program.get_stablehlo_text())
        module ...stablehlo.maximum...
        >>> program(torch.tensor([-1.0, 1.0]))
        tensor([0., 1.], device='xla:0')
    """
    options = options or StableHLOExportOptions()
    program = exported_model.run_decompositions({})
    signature, state = program.graph_signature, {**program.state_dict, **program.constants}
    example = exported_model.example_inputs
    if options.override_tracing_arguments is not None:
        example = options.override_tracing_arguments, options.override_tracing_kwargs or {}
    elif dynamic := _dynamic(exported_model):
        raise NotImplementedError(
            f"the program has dynamic sizes ({dynamic}), and a StableHLO program has fixed ones: "
            "choose them by override_tracing_arguments"
        )
    if example is None:
        raise ValueError("the program has no example inputs: give override_tracing_arguments")
    inputs = iter(pytree.tree_leaves(example))
    weights: dict[str, torch.Tensor] = {}
    meta: dict[str, Any] = {"weights": [], "inputs": [], "outputs": []}
    given: list[Any] = []
    users: list[Any] = []
    for spec in signature.input_specs:
        if spec.kind in _STATE:
            assert spec.target is not None
            x = weights[spec.target] = state[spec.target].detach()
            meta["weights"].append({"name": spec.target, **_describe(x)})
        elif spec.kind == InputKind.USER_INPUT:
            x = next(inputs)
            users.append(spec.arg)
            if not isinstance(spec.arg, TensorArgument):
                given.append(x)
                continue
            meta["inputs"].append(_describe(x))
        else:
            raise NotImplementedError(f"an input of kind {spec.kind.name} is not exported")
        given.append(_placeholder(x))
    meta["in_structure"] = _tree(users, program.call_spec.in_spec)
    _trace(program, given, meta)
    return StableHLOGraphModule(meta.pop("text"), meta, weights, options)


def _user_inputs(program: ExportedProgram) -> list[InputSpec]:
    return [s for s in program.graph_signature.input_specs if s.kind == InputKind.USER_INPUT]


def _dynamic(program: ExportedProgram) -> str:
    """Name the dimensions of the inputs that have no fixed size."""
    found = []
    for node in program.graph.find_nodes(op="placeholder"):
        x = node.meta.get("val")
        if isinstance(x, torch.Tensor):
            sizes = enumerate(x.shape)
            found += [f"{node.name}.shape[{i}]" for i, n in sizes if isinstance(n, torch.SymInt)]
    return ", ".join(found)


def _trace(program: ExportedProgram, given: Sequence[Any], meta: dict[str, Any]) -> None:
    """Record the program on placeholders and note text and results."""
    with torch.no_grad(), recording():
        returned = _on_xla(program.graph_module)(*given)
        results: list[torch.Tensor] = []
        users: list[Any] = []
        tensors = [s.arg.name for s in _user_inputs(program) if isinstance(s.arg, TensorArgument)]
        for x, spec in zip(returned, program.graph_signature.output_specs, strict=True):
            updates: dict[str, Any] = {}
            if spec.kind == OutputKind.BUFFER_MUTATION:
                updates["updates"] = spec.target
            elif spec.kind == OutputKind.USER_INPUT_MUTATION:
                updates["writes"] = tensors.index(str(spec.target))
            elif spec.kind == OutputKind.USER_OUTPUT:
                users.append(spec.arg)
            else:
                raise NotImplementedError(f"a result of kind {spec.kind.name} ({spec.target}) is not exported")
            if isinstance(x, torch.Tensor):
                results.append(x.to("xla").clone(memory_format=torch.contiguous_format))
                meta["outputs"].append({**_describe(x), **updates})
    meta["out_structure"] = _tree(users, program.call_spec.out_spec)
    handle = native().fast.handle
    arguments = [handle(x) for x in given if isinstance(x, torch.Tensor)]
    meta["text"] = native().export(arguments, [handle(x) for x in results])


def save_as_stablehlo(
    exported_model: ExportedProgram,
    stablehlo_dir: str | os.PathLike[str],
    options: StableHLOExportOptions | None = None,
) -> None:
    """Write an exported program as a bundle, which `torch_go_xla_runtime` runs without torch.

    Args:
        exported_model: what ``torch.export.export`` returns.
        stablehlo_dir: the folder of the bundle, which is made if need be.
        options: how it is exported.

    Raises:
        NotImplementedError: the program has no StableHLO, as for `exported_program_to_stablehlo`.
        OSError: a file cannot be written.

    Example:
        >>> import os, tempfile, torch, torch_go_xla
        >>> from torch_go_xla.stablehlo import save_as_stablehlo
        >>> folder = tempfile.mkdtemp()
        >>> save_as_stablehlo(torch.export.export(torch.nn.ReLU(), (torch.ones(2),)), folder)
        >>> sorted(os.listdir(os.path.join(folder, "functions")))
        ['forward.json', 'forward.mlir']
    """
    exported_program_to_stablehlo(exported_model, options).save(stablehlo_dir)


def save_torch_model_as_stablehlo(
    torchmodel: torch.nn.Module,
    args: tuple[Any, ...],
    path: str | os.PathLike[str],
    options: StableHLOExportOptions | None = None,
) -> None:
    """Export a module for these arguments and write it as a bundle.

    Args:
        torchmodel: the module.
        args: its arguments; tensors give types and shapes.
        path: the folder of the bundle, which is made if need be.
        options: how it is exported.

    Raises:
        NotImplementedError: the program has no StableHLO, as for `exported_program_to_stablehlo`.
        OSError: a file cannot be written.

    Example:
        >>> import os, tempfile, torch, torch_go_xla
        >>> from torch_go_xla.stablehlo import save_torch_model_as_stablehlo
        >>> folder = tempfile.mkdtemp()
        >>> save_torch_model_as_stablehlo(torch.nn.Linear(3, 2), (torch.ones(1, 3),), folder)
        >>> sorted(os.listdir(os.path.join(folder, "data")))
        ['bias', 'weight']
    """
    save_as_stablehlo(torch.export.export(torchmodel, args), path, options)


__getattr__ = _absent.attributes(__name__)
