"""Pictures of graphs: every node is drawn once, below its operands, and beside the others."""

from __future__ import annotations

import itertools
import json
import re
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


def test_the_page_of_a_graph_stands_by_itself(tmp_path: Path) -> None:
    drawn = graph.of(model())
    drawn.save(tmp_path / "graph.html")
    text = (tmp_path / "graph.html").read_text(encoding="utf-8")
    assert not re.findall(r"(?:src|href)=|https?://(?!www\.w3\.org/2000/svg)|@import", text)
    (data,) = re.findall(r'<script id="data" type="application/json">(.*?)</script>', text, re.DOTALL)
    nodes = json.loads(data)["nodes"]
    assert [n["op"] for n in nodes] == [n.op for n in drawn.nodes.values()]
    lines = {n["line"].rpartition(":")[0] for n in nodes if n["line"]}
    assert lines == {__file__}, "each node has the line that recorded it"


def test_text_cannot_end_the_data_of_a_page() -> None:
    recorded = graph.Graph("%1 = aten::ones {size=[2]} : f32[2]\nreturn %1 : f32[2]\n", ["</script><b>:1"])
    assert "</script><b>" not in recorded.html() and r"<\/script><b>" in recorded.html()


def test_nodes_belong_to_the_modules_that_recorded_them() -> None:
    layers = nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.GELU(), nn.Linear(8, 4))).to("xla")
    x = torch.randn(2, 8, device="xla")
    torch_go_xla.sync()
    with graph.modules(layers) as modules:
        loss = layers(x).square().mean()
        loss.backward()
    recorded = graph.of(loss, *(p.grad for p in layers.parameters()), modules=modules)
    found = {node.op.removeprefix("aten::"): node.module for node in recorded.nodes.values()}
    assert found["gelu"] == ("Sequential", "1", "0")
    assert found["gelu_backward"] == ("Sequential backward", "1", "0")
    assert found["mean"] == ()
    products = [n.module for n in recorded.nodes.values() if n.op in ("aten::mm", "aten::addmm")]
    assert products[:2] == [("Sequential", "0"), ("Sequential", "1", "1")]
    assert set(products[2:]) == {("Sequential backward", "0"), ("Sequential backward", "1", "1")}
    assert not [m for m in layers.modules() if m._forward_hooks or m._forward_pre_hooks]


class Residual(nn.Module):
    """Computes by itself before, around and after a module within it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.sin()
        return (x.exp() + self.inner(x.cos())).tanh()


def test_a_module_has_no_functions_of_the_one_around_it() -> None:
    model = Residual().to("xla")
    x = torch.randn(2, 8, device="xla", requires_grad=True)
    torch_go_xla.sync()
    with graph.modules(model) as modules:
        loss = model(x.neg()).sum()
        loss.backward()
    recorded = graph.of(x.grad, *(p.grad for p in model.parameters()), modules=modules)
    backward = {
        n.op.removeprefix("aten::"): n.module for n in recorded.nodes.values() if n.module[:1] == ("Residual backward",)
    }
    assert backward["mm"] == ("Residual backward", "inner")
    assert backward["tanh_backward"] == ("Residual backward",)
    own = [n.module for n in recorded.nodes.values() if n.op in ("aten::sin", "aten::cos", "aten::mul.Tensor")]
    assert set(own) == {("Residual",), ("Residual backward",)}, (
        "the derivatives of exp, cos and sin are the model's own"
    )
    assert [n.module for n in recorded.nodes.values() if n.op == "aten::neg"][-1] == (), "that of neg is its caller's"


def test_marks_of_an_earlier_graph_do_not_count() -> None:
    layer = nn.Linear(8, 8).to("xla")
    with graph.modules(layer) as modules:
        layer(torch.ones(2, 8, device="xla"))
        torch_go_xla.sync()
        y = torch.ones(3, device="xla").sin()
        layer(torch.ones(2, 8, device="xla"))
        assert graph.of(y, modules=modules).nodes[2].module == ()
    with pytest.raises(ValueError, match="on an xla device"), graph.modules(nn.Linear(2, 2)):
        pass


def test_the_file_for_model_explorer_has_every_edge(tmp_path: Path) -> None:
    drawn = graph.of(model())
    drawn.save(tmp_path / "graph.json")
    (found,) = json.loads((tmp_path / "graph.json").read_text(encoding="utf-8"))["graphs"]
    edges = [[int(e["sourceNodeId"]) for e in node["incomingEdges"]] for node in found["nodes"]]
    assert edges == [node.operands for node in drawn.nodes.values()]
    with pytest.raises(ValueError, match=r"graph.png: expected a name that ends in .svg, .html, .json"):
        drawn.save(tmp_path / "graph.png")


def costs(*tensors: torch.Tensor) -> dict[str, tuple[int, int]]:
    return {n.op.removeprefix("aten::"): (n.flops, n.bytes) for n in graph.of(*tensors).nodes.values()}


def test_costs_are_those_of_the_shapes() -> None:
    a, b, rows = (torch.randn(s, device="xla") for s in ((4, 8), (8, 16), (2, 4, 8)))
    image, kernel = torch.randn(1, 3, 8, 8, device="xla"), torch.randn(6, 3, 3, 3, device="xla")
    vector = torch.randn(8, device="xla")
    torch_go_xla.sync()
    assert costs(a @ b)["mm"] == (2 * 4 * 16 * 8, 4 * 4 * 16)
    for bias in (torch.ones(16, device="xla"), torch.ones(4, 16, device="xla")):
        assert costs(torch.addmm(bias, a, b))["addmm"] == (2 * 4 * 16 * 8, 4 * 4 * 16)
    assert costs(rows @ rows.mT)["bmm"] == (2 * 2 * 4 * 4 * 8, 4 * 2 * 4 * 4)
    assert costs(torch.addbmm(torch.ones(4, 4, device="xla"), rows, rows.mT))["addbmm"] == (
        2 * 2 * 4 * 4 * 8,
        4 * 4 * 4,
    )
    assert costs(torch.addr(torch.ones(8, 8, device="xla"), vector, vector))["addr"] == (8 * 8, 4 * 8 * 8)
    assert costs(torch.nn.functional.conv2d(image, kernel, padding=1))["convolution"] == (2 * 6 * 64 * 27, 4 * 6 * 64)
    assert costs(a.sum(1))["sum.dim_IntList"] == (32, 4 * 4)
    assert costs(a.reshape(32) + 1)["xla::reshape"] == (0, 4 * 32)
    assert costs(a > 0)["gt.Scalar"] == (32, 32)


def test_the_cost_of_attention_backward() -> None:
    """Its five products are: scores, and the gradients of scores, queries, keys and values."""
    q, k, v = (torch.randn(1, 2, n, 8, device="xla", requires_grad=True) for n in (16, 32, 32))
    torch.nn.functional.scaled_dot_product_attention(q, k, v).sum().backward()
    found = costs(q.grad, k.grad, v.grad)
    product = 2 * q.numel() * 32
    names = [name for name in found if "scaled_dot_product" in name]
    assert sorted(found[name][0] for name in names) == [2 * product, 5 * product], found
