"""torch_xla's ``torch_xla.core.dynamo_bridge``: graphs of torch.fx as programs that are recorded once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .._dynamo import compiled

__all__ = ["extract_compiled_graph"]


def extract_compiled_graph(xla_model: torch.fx.GraphModule, xla_args: Sequence[Any]) -> Callable[..., Any]:
    """Return a graph as a function that is recorded at its first call and replayed at later ones.

    It is what ``torch.compile(backend="openxla")`` makes of the graphs of AOTAutograd. No gradients pass through it.

    Args:
        xla_model: the graph.
        xla_args: arguments of the graph, which choose the device.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.core.dynamo_bridge import extract_compiled_graph
        >>> graph = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.ReLU()))
        >>> x = torch.tensor([-1.0, 1.0], device="xla")
        >>> extract_compiled_graph(graph, (x,))(x).tolist()
        [0.0, 1.0]
    """
    run = compiled(xla_model, xla_args)
    return lambda *args: run(list(args))
