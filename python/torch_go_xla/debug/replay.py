"""Runs saved graphs again, from their text. It is not what `torch_go_xla.compile` replays.

The text is what `_XLAC._get_xla_tensors_text` returns and what ``XLA_SAVE_TENSORS_FILE`` appends to a file, one graph
for each sync. In a shell, with random inputs and the same ones each time::

    python -m torch_go_xla.debug.replay graphs.ir
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

import torch

from .._backend.core import SCALAR_TYPE
from .._core import core as _native
from .._vocabulary import HLO_TYPES

__all__ = ["TYPES", "graphs", "main", "random_inputs", "run"]

_SHAPE = r"([\w<>]+)\[([\d,]*)\]"
_DATA = re.compile(rf"^%\d+ = xla::data(?: \(local\))? : {_SHAPE}$", re.M)
_RESULT = re.compile(rf"%\d+(?:#\d+)? : {_SHAPE}")

# Element types by their names in the text.
TYPES: dict[str, torch.dtype] = {name: getattr(torch, ours) for name, ours in HLO_TYPES.items()}


def graphs(text: str) -> list[str]:
    """Return the graphs of a file, each with the comments in front of it.

    Args:
        text: the contents of the file.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.debug import graph, replay
        >>> file = graph.text(torch.ones(2, device="xla") + 1) + graph.text(torch.ones(2, device="xla") + 2)
        >>> len(replay.graphs(file))
        2
    """
    found, lines = [], []
    for line in text.splitlines():
        lines.append(line)
        if line.startswith("return"):
            found.append("\n".join(lines))
            lines = []
    return found


def _shapes(found: Sequence[tuple[str, str]]) -> list[tuple[torch.dtype, tuple[int, ...]]]:
    for name, dims in found:
        if name not in TYPES:
            raise ValueError(f"graph: bad shape {name}[{dims}]")
    return [(TYPES[name], tuple(int(n) for n in dims.split(",") if n)) for name, dims in found]


def random_inputs(graph: str, seed: int = 0) -> list[torch.Tensor]:
    """Return CPU tensors for the buffers that a graph reads: normal numbers, 0 and 1 for whole ones.

    They depend only on the graph and the seed.

    Args:
        graph: the text of the graph.
        seed: any integer.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.debug import graph, replay
        >>> x = torch.tensor([1.0, 2.0]).to("xla")
        >>> [t.shape for t in replay.random_inputs(graph.text(x + 1))]
        [torch.Size([2])]
    """
    generator = torch.Generator().manual_seed(seed)
    tensors = []
    for dtype, size in _shapes(_DATA.findall(graph)):
        if dtype.is_floating_point or dtype.is_complex:
            made = torch.randn(size, generator=generator, dtype=torch.complex128 if dtype.is_complex else torch.float64)
        else:
            made = torch.randint(0, 2, size, generator=generator)
        tensors.append(made.to(dtype))
    return tensors


def run(graph: str, inputs: Sequence[torch.Tensor] | None = None) -> list[torch.Tensor]:
    """Record a graph and return its results: xla tensors, pending until they are read or synced.

    Args:
        graph: the text of the graph. One of sharded values runs with SPMD only.
        inputs: the values of its ``xla::data`` in order; `random_inputs` by default.

    Raises:
        ValueError: the text is not a graph; the message says where.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.debug import graph, replay
        >>> x = torch.tensor([1.0, 2.0]).to("xla")
        >>> replay.run(graph.text(x + 1), inputs=[torch.tensor([5.0, 6.0])])
        [tensor([6., 7.], device='xla:0')]
    """
    given = [x.to("xla").contiguous() for x in (random_inputs(graph) if inputs is None else inputs)]
    results = _shapes(_RESULT.findall(graph.rpartition("return")[2]))
    fast = _native.fast
    handles = _native.record(graph, [fast.handle(x) for x in given], len(results))
    return [
        fast.new_tensor(handle, SCALAR_TYPE[dtype], 0, size)
        for handle, (dtype, size) in zip(handles, results, strict=True)
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run every graph of some files and print the results.

    Args:
        arguments: the files and options; by default those of the command line.

    Example:
        >>> import os, tempfile, torch, torch_go_xla
        >>> from torch_go_xla.debug import graph, replay
        >>> os.chdir(tempfile.mkdtemp())
        >>> size = open("graphs.ir", "w").write(graph.text(torch.ones(2, device="xla") + 1))
        >>> replay.main(["graphs.ir"])
        graphs.ir, graph 1
        tensor([2., 2.])
    """
    parser = argparse.ArgumentParser(prog="python -m torch_go_xla.debug.replay", description=__doc__)
    parser.add_argument("file", nargs="+", type=Path)
    parser.add_argument("--seed", type=int, default=0, help="of the inputs")
    options = parser.parse_args(arguments)
    for file in options.file:
        for number, graph in enumerate(graphs(file.read_text(encoding="utf-8")), 1):
            print(f"{file}, graph {number}")
            for result in run(graph, random_inputs(graph, options.seed)):
                print(result.cpu())


if __name__ == "__main__":
    main()
