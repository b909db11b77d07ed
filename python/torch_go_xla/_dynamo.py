"""``torch.compile(model, backend="openxla")``: the graphs that Dynamo and AOTAutograd make, each as one program.

A compiled graph is recorded at its first call and replayed at later ones. Mutation and aliasing of inputs are
AOTAutograd's; what it leaves in an inference graph (``copy_`` into an input) is part of the program, which then writes
into the input's buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ._backend.recorded import Recorded


def _reshape(graph: torch.fx.GraphModule) -> None:
    """Make views of a graph reshapes: Dynamo's strides are those of torch's kernels, and ours are dense."""
    for node in graph.graph.nodes:
        if node.target in (torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default):
            node.target = torch.ops.aten.reshape.default
    graph.recompile()


def compiled(graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[[list[Any]], Any]:
    """Return a graph as a function of a list of tensors, which it empties; recorded once, without gradients."""
    _reshape(graph)
    devices = {x.device.index or 0 for x in example_inputs if isinstance(x, torch.Tensor) and x.device.type == "xla"}

    def computed(*args: Any) -> Any:
        # A view of a parameter requires grad, even where no gradient is recorded; AOTAutograd expects none.
        return pytree.tree_map_only(torch.Tensor, lambda t: t.detach() if t._is_view() else t, graph(*args))

    recorded = Recorded(computed, device=min(devices, default=0))

    def run(args: list[Any]) -> Any:
        given = tuple(args)
        args.clear()  # the boxed convention: the caller keeps no argument alive
        with torch.no_grad():
            return recorded(given)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def openxla(graph: torch.fx.GraphModule, example_inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """Compile an FX graph of Dynamo's; the entry point ``torch_dynamo_backends`` names it."""
    from torch._dynamo.backends.common import aot_autograd

    backend = aot_autograd(
        fw_compiler=compiled, bw_compiler=compiled, inference_compiler=compiled, keep_inference_input_mutations=True
    )
    return backend(graph, example_inputs, **options)
