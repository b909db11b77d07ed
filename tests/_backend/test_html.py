"""What a notebook shows: metrics, compiled steps, meshes and sharded tensors as tables, with texts escaped."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable

import torch

import torch_go_xla
import torch_go_xla.debug.metrics as met
from torch_go_xla._backend import html


def cells(shown: str) -> list[list[str]]:
    """Return the texts of a table's rows; what is not well-formed raises."""
    tables = ET.fromstring(f"<all>{shown}</all>")
    return [["".join(cell.itertext()) for cell in row] for row in tables.iter("tr")]


def test_texts_are_escaped() -> None:
    shown = html.table([("a<b>", 1)], ("<i>", "n"), "x & y") + html.grid([[(11, "<CPU>")]], "a & b")
    assert cells(shown) == [["<i>", "n"], ["a<b>", "1"], ["<CPU>"]]


def test_metrics() -> None:
    met.clear_all()
    assert (torch.ones(3, device="xla") * 5).sum().item() == 15
    rows = {row[0]: row[1:] for row in cells(met.report()._repr_html_())}
    assert rows["metric"] == ["samples", "total", "50%", "95%"]
    assert int(rows["ExecuteTime"][0]) >= 1 and rows["ExecuteTime"][1].endswith("s")
    assert rows["SyncTensorsGraph"] == ["1"]
    assert str(met.report()) == met.metrics_report()


def test_a_compiled_step() -> None:
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    step = torch_go_xla.compile(double)
    assert cells(step._repr_html_())[1:] == []
    for _ in range(4):
        step(torch.ones(3, device="xla"))
    head, row = cells(step._repr_html_())
    assert head == ["kind of call", "graphs", "replays", "the latest call"]
    assert int(row[2]) >= 1 and row[3] == "a replay"


def test_meshes_and_sharded_tensors(ok: Callable[..., str]) -> None:
    ok("tables/sharded.py", CPU_NUM_DEVICES="4")
