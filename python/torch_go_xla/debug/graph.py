"""What is recorded: the graph of some tensors as text, as StableHLO, and as a picture, without Graphviz::

    from torch_go_xla.debug import graph
    print(graph.text(loss))             # a line a node: op, operands, attributes, shape
    print(graph.stablehlo(loss))        # the module that the compiler would get
    graph.of(loss)                      # shown by a notebook
    graph.of(loss).save("loss.svg")

Large graphs are folded by module, with cost and search, by a page that any browser shows::

    with graph.modules(model) as modules:
        loss = model(x).sum()
        loss.backward()
    graph.of(loss, *(p.grad for p in model.parameters()), modules=modules).save("step.html")

A node is drawn below its operands. Numbers that are operands stand in their user's box; `xla::data` is a value
that is on the device already.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

import torch

from .. import _XLAC
from . import _view
from ._modules import Modules, modules

__all__ = ["Graph", "Node", "modules", "of", "stablehlo", "text"]

# Sizes in px.
_CHAR, _LINE, _PAD, _GAP_X, _GAP_Y, _MARGIN = 6.6, 15, 8, 18, 34, 12
# A notebook draws a graph of so many nodes, and shows a larger one folded.
_FEW = 60
# Passes over the layers that pull nodes beside their neighbours.
_PASSES = 4

_NODE = re.compile(r"^%(\d+) = (\S+)(.*?)(?: \{(.*)\})? : ([^{}]+)$")
_VALUE = re.compile(r"%(\d+)")
_NUMBER = re.compile(r"^\s*(\S+)")


@dataclass
class Node:
    """One value of a graph, and where its box is in the picture, in px.

    Example:
        >>> from torch_go_xla.debug.graph import Node
        >>> node = Node("aten::add.Tensor", "f32[2]", [0, 1], "")
        >>> node.lines, node.width > 0, node.height > 0, node.middle == node.width / 2
        (['add.Tensor', 'f32[2]'], True, True, True)
    """

    op: str
    shape: str
    operands: list[int]
    attributes: str
    layer: int = 0
    x: float = 0.0  # the left edge, as y the upper one
    y: float = 0.0
    numbers: str = ""
    line: str = ""  # of Python, "file:line", that recorded it; "" for what autograd records
    module: tuple[str, ...] = ()  # the names of the modules around it, the outermost first
    flops: int = 0  # its operations: 2 for a multiplication and its sum, 1 for an element of another op; 0 if unknown
    bytes: int = 0  # of its results; 0 if unknown

    @property
    def lines(self) -> list[str]:
        """The text of the node's box."""
        op = self.op.removeprefix("aten::").removeprefix("xla::")
        head = f"{op}({self.numbers})" if self.numbers else op
        return [line[:40] for line in (head, self.attributes, self.shape) if line]

    @property
    def width(self) -> float:
        """The width of the node's box."""
        return _CHAR * max(len(line) for line in self.lines) + 2 * _PAD

    @property
    def height(self) -> float:
        """The height of the node's box."""
        return _LINE * len(self.lines) + _PAD

    @property
    def middle(self) -> float:
        """The x of the box's middle."""
        return self.x + self.width / 2


class Graph:
    """The graph of some tensors as it was recorded; see `of`.

    Args:
        text: the graph, as `text` returns it.
        lines: the Python line of each node, in the order of the text, if they are known.
        paths: the names of the modules around each node, likewise.
        costs: the operations of each node and the bytes of its results, likewise.

    Example:
        >>> import os, tempfile, torch, torch_go_xla
        >>> from torch_go_xla.debug import graph
        >>> drawn = graph.Graph(graph.text(torch.ones(2, device="xla").sin().cos()))
        >>> [node.op for node in drawn.nodes.values()][-2:]
        ['aten::sin', 'aten::cos']
        >>> drawn.svg()[:4]
        '<svg'
        >>> drawn.html()[:15]
        '<!doctype html>'
        >>> drawn.save(os.path.join(tempfile.mkdtemp(), "cos.svg"))
    """

    def __init__(
        self,
        text: str,
        lines: Sequence[str] | None = None,
        paths: Sequence[tuple[str, ...]] | None = None,
        costs: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        self.text = text
        self.nodes: dict[int, Node] = {}
        self.results: list[int] = []
        self._read()
        for index, node in self.nodes.items():
            node.line = lines[index - 1] if lines else ""
            node.module = paths[index - 1] if paths else ()
            node.flops, node.bytes = costs[index - 1] if costs else (0, 0)
        self._layers = self._layout()

    def _read(self) -> None:
        numbers: dict[int, str] = {}
        for line in self.text.splitlines():
            if line.startswith("return "):
                self.results = [int(v) for v in _VALUE.findall(line)]
            found = _NODE.match(line)
            if found is None:
                continue
            index, op, rest, attributes, shape = found.groups()
            value = _NUMBER.match(rest)
            if op == "xla::scalar" and value is not None:
                numbers[int(index)] = value.group(1)
                continue
            operands = [int(v) for v in _VALUE.findall(rest)]
            self.nodes[int(index)] = Node(
                op,
                shape,
                [v for v in operands if v in self.nodes],
                attributes or "",
                numbers=", ".join(numbers[v] for v in operands if v in numbers),
            )

    def _layout(self) -> list[list[Node]]:
        """Give every node a layer below its operands and a place in it; returns the layers."""
        users: dict[int, list[int]] = {i: [] for i in self.nodes}
        for i, node in self.nodes.items():
            node.layer = 1 + max((self.nodes[o].layer for o in node.operands), default=-1)
            for o in node.operands:
                users[o].append(i)
        for i, node in self.nodes.items():
            if not node.operands and users[i]:  # beside the first use, not at the top
                node.layer = min(self.nodes[u].layer for u in users[i]) - 1
        layers: list[list[Node]] = [[] for _ in range(1 + max((n.layer for n in self.nodes.values()), default=-1))]
        beside: dict[int, list[Node]] = {}
        for i, node in self.nodes.items():
            layers[node.layer].append(node)
            beside[id(node)] = [self.nodes[k] for k in (*node.operands, *users[i])]
        y = float(_MARGIN)
        for layer in layers:
            _pack(layer)
            for node in layer:
                node.y = y
            y += max(n.height for n in layer) + _GAP_Y
        for turn in range(_PASSES):
            for layer in layers if turn % 2 == 0 else reversed(layers):
                _pull(layer, beside)
        left = min((n.x for n in self.nodes.values()), default=0.0) - _MARGIN
        for node in self.nodes.values():
            node.x -= left
        return layers

    def svg(self) -> str:
        """Return the picture as an SVG document."""
        width = max((n.x + n.width for n in self.nodes.values()), default=0.0) + _MARGIN
        height = max((n.y + n.height for n in self.nodes.values()), default=0.0) + _MARGIN
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="monospace" font-size="11">',
            '<rect width="100%" height="100%" fill="#fff"/>',
        ]
        parts += [_edge(self.nodes[o], node) for node in self.nodes.values() for o in node.operands]
        parts += [_box(node, i in self.results) for i, node in self.nodes.items()]
        return "\n".join([*parts, "</svg>"])

    def html(self) -> str:
        """Return a page without references to other files: the graph folded by module, with cost, zoom and search.

        Nodes without a module are folded by the Python line that recorded them.
        """
        return _view.page(self.nodes, self.results, repr(self))

    def _repr_svg_(self) -> str | None:
        return self.svg() if len(self.nodes) <= _FEW else None

    def _repr_html_(self) -> str | None:
        if len(self.nodes) <= _FEW:
            return None
        frame = f'<iframe style="width:100%;height:560px;border:1px solid #d0d7de" srcdoc="{escape(self.html())}">'
        return f"{frame}</iframe>"

    def __repr__(self) -> str:
        return f"Graph of {len(self.nodes)} nodes in {len(self._layers)} layers"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the graph to a file: a picture, a page for a browser, or a graph for Model Explorer.

        Netron and Model Explorer also open the text of `stablehlo` as a file ``.mlir``.

        Args:
            path: the file: ``.svg``, ``.html`` or ``.json``.

        Raises:
            OSError: the file cannot be written.
            ValueError: the name of the file ends in something else.
        """
        forms: dict[str, Callable[[], str]] = {
            ".svg": self.svg,
            ".html": self.html,
            ".json": lambda: _view.model_explorer(self.nodes, self.results, repr(self)),
        }
        form = forms.get(os.path.splitext(path)[1])
        if form is None:
            raise ValueError(f"{os.fspath(path)}: expected a name that ends in {', '.join(forms)}")
        with open(path, "w", encoding="utf-8") as file:
            file.write(form())


def _pack(layer: list[Node]) -> None:
    """Push a layer's boxes to the right until none covers another."""
    edge = -float("inf")
    for node in layer:
        node.x = max(node.x, edge)
        edge = node.x + node.width + _GAP_X


def _pull(layer: list[Node], beside: dict[int, list[Node]]) -> None:
    """Move a layer's boxes to the middle of their neighbours, in the order of these."""
    for node in layer:
        near = beside[id(node)]
        if near:
            node.x = sum(n.middle for n in near) / len(near) - node.width / 2
    wanted = {id(n): n.x for n in layer}
    layer.sort(key=lambda n: n.x + n.width / 2)
    _pack(layer)
    shift = sum(n.x - wanted[id(n)] for n in layer) / len(layer)
    for node in layer:
        node.x -= shift


def _edge(source: Node, target: Node) -> str:
    x1, y1, x2, y2 = source.middle, source.y + source.height, target.middle, target.y
    bend = (y2 - y1) / 2
    return (
        f'<path d="M{x1:.1f} {y1:.1f}C{x1:.1f} {y1 + bend:.1f} {x2:.1f} {y2 - bend:.1f} {x2:.1f} {y2:.1f}" '
        'fill="none" stroke="#888"/>'
    )


def _box(node: Node, result: bool) -> str:
    fill = "#e8f0fe" if node.op == "xla::data" else "#fde9c8" if result else "#f6f6f6"
    text = "".join(
        f'<text x="{node.middle:.1f}" y="{node.y + _LINE * (k + 1) - 1:.1f}" text-anchor="middle">{escape(line)}</text>'
        for k, line in enumerate(node.lines)
    )
    return (
        f'<g><rect x="{node.x:.1f}" y="{node.y:.1f}" width="{node.width:.1f}" height="{node.height:.1f}" rx="4" '
        f'fill="{fill}" stroke="#666"/>{text}</g>'
    )


def text(*tensors: torch.Tensor) -> str:
    """Return the text of the graph that computes some xla tensors, as it is recorded now; nothing is computed.

    A line is a node: ``%3 = aten::add.Tensor %1 %2 : f32[2,3]`` is its number, op, operands and shape, with attributes
    in braces. ``xla::data`` is a value that is on the device already. `debug.replay` runs such a text.

    Args:
        tensors: the tensors.

    Raises:
        RuntimeError: a tensor is not on an xla device.
        ValueError: the tensors are on different devices.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.debug import graph
        >>> print(graph.text(torch.ones(2, device="xla").sin()))
        %1 = aten::ones {size=[2], pin_memory=0} : f32[2]
        %2 = aten::sin %1 : f32[2]
        return %2 : f32[2]
        <BLANKLINE>
    """
    return _XLAC._get_xla_tensors_text(tensors)


def stablehlo(*tensors: torch.Tensor) -> str:
    """Return the StableHLO module that computes some xla tensors; nothing is computed.

    The module is that of the compiler, but for calls of torch's kernels: it names no code of this process and can run
    elsewhere. Parameters are the values that are on the device.

    Args:
        tensors: the tensors.

    Raises:
        NotLoweredError: an op has no lowering.
        RuntimeError: a tensor is not on an xla device.
        ValueError: the tensors are on different devices.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.debug import graph
        >>> print(graph.stablehlo(torch.ones(2, device="xla").sin()))
        module ...stablehlo.sine...
    """
    return _XLAC._get_stablehlo(tensors)


def of(*tensors: torch.Tensor, modules: Modules | None = None) -> Graph:
    """Return the graph that computes some xla tensors, as it is recorded now.

    Tensors that are computed already have no nodes.

    Args:
        tensors: the tensors.
        modules: what `modules` has yielded, to fold the graph by module.

    Raises:
        RuntimeError: a tensor is not on an xla device.
        ValueError: the tensors are on different devices.

    Example:
        >>> import torch, torch_go_xla
        >>> from torch_go_xla.debug import graph
        >>> graph.of(torch.ones(2, device="xla").sin())  # a notebook draws it
        Graph of ... nodes in ... layers
    """
    infos = _XLAC._get_xla_tensors_nodes(tensors)
    paths = None if modules is None else [modules.of(info["slot"]) for info in infos]
    costs = [(info["flops"], info["bytes"]) for info in infos]
    return Graph(text(*tensors), [info["where"] for info in infos], paths, costs)
