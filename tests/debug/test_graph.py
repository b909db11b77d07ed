"""Pictures of graphs: every node is drawn once, below its operands, and beside the others."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import torch
from torch import nn

import torch_go_xla
from torch_go_xla.debug import graph

SVG = "{http://www.w3.org/2000/svg}"


def model() -> torch.Tensor:
    """Return the loss of a model, recorded."""
    layers = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 4)).to("xla")
    x = torch.randn(2, 8, device="xla")
    return layers(x + x.flip(0)).log_softmax(-1).mean()


def test_nodes_are_below_their_operands_and_never_on_another() -> None:
    drawn = graph.of(model())
    assert len(drawn.nodes) > 10
    for node in drawn.nodes.values():
        for operand in node.operands:
            above = drawn.nodes[operand]
            assert above.y + above.height < node.y, f"{above.op} is not above {node.op}"
    for a, b in itertools.combinations(drawn.nodes.values(), 2):
        apart = a.x + a.width <= b.x or b.x + b.width <= a.x or a.y + a.height <= b.y or b.y + b.height <= a.y
        assert apart, f"{a.op} covers {b.op}"


def test_the_picture_is_whole(tmp_path: Path) -> None:
    x = torch.ones(2, device="xla")
    torch_go_xla.sync()
    drawn = graph.of((x * 3.5).relu())
    assert [n.op for n in drawn.nodes.values()][-1] == "aten::relu"
    root = ET.fromstring(drawn._repr_svg_())
    assert len(root.findall(f"{SVG}g")) == len(drawn.nodes)
    assert len(root.findall(f"{SVG}path")) == sum(len(n.operands) for n in drawn.nodes.values())
    texts = [t.text for t in root.iter(f"{SVG}text")]
    assert "f32[2]" in texts and any("3.5" in (t or "") for t in texts)
    width, height = float(root.get("width", "0")), float(root.get("height", "0"))
    for node in drawn.nodes.values():
        assert 0 <= node.x <= node.x + node.width <= width and 0 <= node.y <= node.y + node.height <= height
    drawn.save(tmp_path / "graph.svg")
    assert (tmp_path / "graph.svg").read_text(encoding="utf-8") == drawn.svg()


def test_a_computed_tensor_has_no_nodes() -> None:
    x = torch.ones(2, device="xla")
    torch_go_xla.sync()
    drawn = graph.of(x)
    assert drawn.nodes == {}
    assert ET.fromstring(drawn.svg()).findall(f"{SVG}g") == []


def test_a_cpu_tensor_has_no_graph() -> None:
    with pytest.raises(RuntimeError, match="expected xla tensors, got one on cpu"):
        graph.of(torch.ones(2))


def test_texts_of_what_is_recorded() -> None:
    x = torch.ones(2, 3, device="xla")
    y = x + 1
    assert graph.of(y).text == graph.text(y) and "aten::add.Tensor" in graph.text(y) and "f32[2,3]" in graph.text(y)
    module = graph.stablehlo(y)
    assert module.startswith("module") and "stablehlo.add" in module
    both = graph.text(y, x.sum())
    assert "aten::sum" in both and "aten::add.Tensor" in both
    assert y.tolist() == [[2.0] * 3] * 2
    assert "aten::" not in graph.text(y), "what is computed has no nodes"
    for show in (graph.text, graph.stablehlo, graph.of):
        with pytest.raises(RuntimeError, match="xla"):
            show(torch.ones(2))
