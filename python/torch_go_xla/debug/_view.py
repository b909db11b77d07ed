"""A recorded graph as files: a page that a browser shows, and a graph for Model Explorer."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .graph import Node


def _group(node: Node) -> tuple[str, ...]:
    """Return what a node is folded into: its module, else the Python line that recorded it."""
    if node.module or not node.line:
        return node.module
    folder, name = os.path.split(node.line)
    if os.path.basename(folder).startswith("ipykernel_"):  # a file NUMBER.py for each cell of a notebook
        return (f"line {name.rpartition(':')[2]} of cell {name.partition('.')[0][-4:]}",)
    return (name,)


def _described(index: int, node: Node, result: bool) -> dict[str, Any]:
    return {
        "id": index,
        "label": node.lines[0],
        "op": node.op,
        "shape": node.shape,
        "attributes": node.attributes,
        "line": node.line,
        "group": _group(node),
        "inputs": node.operands,
        "flops": node.flops,
        "bytes": node.bytes,
        "result": result,
    }


def page(nodes: Mapping[int, Node], results: list[int], title: str) -> str:
    """Return the graph as a page without references to other files."""
    data = {"title": title, "nodes": [_described(i, node, i in results) for i, node in nodes.items()]}
    template = (files(__package__) / "graph.html").read_text(encoding="utf-8")
    return template.replace("GRAPH_AS_JSON", json.dumps(data).replace("</", "<\\/"), 1)


def model_explorer(nodes: Mapping[int, Node], results: list[int], title: str) -> str:
    """Return the graph as JSON for Model Explorer, which folds it by its namespaces."""
    out = []
    for i, node in nodes.items():
        attributes = {
            "shape": node.shape,
            "attributes": node.attributes,
            "line": node.line,
            "flops": f"{node.flops}",
            "bytes": f"{node.bytes}",
            "result": "yes" if i in results else "",
        }
        out.append(
            {
                "id": str(i),
                "label": node.lines[0],
                "namespace": "/".join(_group(node)),
                "attrs": [{"key": key, "value": value} for key, value in attributes.items() if value],
                "incomingEdges": [
                    {"sourceNodeId": str(o), "sourceNodeOutputId": "0", "targetNodeInputId": str(k)}
                    for k, o in enumerate(node.operands)
                ],
                "outputsMetadata": [{"id": "0", "attrs": [{"key": "tensor_shape", "value": node.shape}]}],
            }
        )
    return json.dumps({"label": title, "graphs": [{"id": title, "nodes": out}]})
