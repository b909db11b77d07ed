"""A compilation is explained, and the files and variables for debugging do what the table says."""

import dataclasses
import re

import processes
import pytest
import torch

import torch_go_xla
from torch_go_xla.debug import compilations


def latest(*steps):
    """Run steps, each to its sync, and return the compilation of the last one."""
    for step in steps:
        kept = step()
        torch_go_xla.sync()
        del kept
    return compilations.recent()[-1]


def ones(*size):
    return torch.full(size, 3.0).to("xla")


REASONS = {
    "an input has another shape: f32[7,2], not f32[7,3]": (lambda: ones(7, 3) * 2, lambda: ones(7, 2) * 2),
    "another op: aten::sub.Tensor, not aten::add.Tensor": (
        lambda: (ones(7, 5).exp() + 2).sin(),
        lambda: (ones(7, 5).exp() - 2).sin(),
    ),
    "other arguments of aten::sum.dim_IntList: {dim=[1], keepdim=0}, not {dim=[0], keepdim=0}": (
        lambda: ones(6, 6).cosh().sum(0),
        lambda: ones(6, 6).cosh().sum(1),
    ),
    "one step has more ops than the other": (lambda: ones(5, 7).sinh(), lambda: ones(5, 7).sinh().exp()),
}


@pytest.mark.parametrize("reason", REASONS)
def test_the_first_difference_is_the_reason(reason):
    first, second = REASONS[reason]
    found = latest(first, second)
    assert found.reason == reason
    assert found.nearest < found.step
    assert reason in compilations.explain()
    assert found.reason in repr(compilations.recent())
    assert "<td>" in compilations.recent()._repr_html_()


def test_a_hit_is_not_a_compilation():
    def step():
        return ones(3, 5).tan() * 7

    before = latest(step)
    assert dataclasses.replace(latest(step, step), tier=before.tier) == before


@pytest.mark.compiled
@pytest.mark.longer
def test_variables(tmp_path):
    graphs, report = tmp_path / "graphs.txt", tmp_path / "metrics.txt"
    done = processes.run(
        "compilations/two_graphs.py",
        PT_XLA_DEBUG_LEVEL="1",
        XLA_IR_DEBUG="1",
        XLA_SAVE_TENSORS_FILE=str(graphs),
        XLA_METRICS_FILE=str(report),
        XLA_SYNC_WAIT="1",
        TORCH_GO_XLA_HUGE_PAGES="0",
    )
    assert done.code == 0, done.err
    assert done.err.count("compiles a program") == 2
    assert "an input where the other step computes: aten::ones" in done.err
    assert re.search(r"two_graphs.py:\d+", done.err)
    text = graphs.read_text()
    assert text.count("# run ") == 2
    assert "return %" in text
    assert "[MetricsData; step=2]" in report.read_text()
    assert "CompileTime" in report.read_text()


def test_every_variable_is_read_somewhere():
    from pathlib import Path

    root = Path(torch_go_xla.__file__).parents[2]
    places = [*(root / "python/torch_go_xla").rglob("*.py"), *(root / "gocore").rglob("*.go")]
    if not (root / "gocore").exists():
        pytest.skip("the sources are not beside the package")
    texts = [p.read_text() for p in places if p.name != "config.go"]
    from torch_go_xla._core import core

    documented = {"XLA_DISABLE_FUNCTIONALIZATION"}  # accepted, and changes nothing
    for name, *_ in core.config_table():
        assert name in documented or any(name in t for t in texts), name


def test_reports_are_numbered_by_the_steps(tmp_path, monkeypatch, capsys):
    """Those that a program asks for, as those that the variable asks for at each step."""
    from torch_go_xla.debug import metrics, metrics_saver

    path = tmp_path / "report"
    monkeypatch.setenv("XLA_METRICS_FILE", str(path))
    torch_go_xla.sync()
    steps = metrics.counter_value("MarkStep")
    metrics_saver.save_metrics()
    metrics_saver.save_metrics(str(path))
    torch_go_xla.sync()
    metrics_saver.save_metrics()
    numbers = [line for line in path.read_text().splitlines() if line.startswith("[MetricsData")]
    assert numbers == [f"[MetricsData; step={n}]" for n in (steps, steps, steps + 1)]
    metrics_saver.save_metrics("STDOUT")
    assert f"[MetricsData; step={steps + 1}]" in capsys.readouterr().out
