"""Variables of the environment: each does what the table says, and none changes a value."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from integration import test_founding

from torch_go_xla._core import core

# Those that change how a program is recorded, compiled or run, and so might change what it computes.
SWITCHES = {
    **dict.fromkeys(("XLA_DISABLE_FUNCTIONALIZATION", "XLA_ENABLE_PARAM_ALIASING", "XLA_IR_DEBUG"), "01"),
    "XLA_TIER": ("compile", "eager"),
}
IN_PROCESS = [
    test_founding.test_the_article_without_the_second_sync,
    test_founding.test_a_sync_of_one_alias_materializes_the_others,
    test_founding.test_save_keeps_aliases,
    test_founding.test_save_after_donation,
    test_founding.test_a_shared_buffer_is_not_donated,
    test_founding.test_functional_tensors_are_saved_as_plain_ones,
]


def configure(name: str, value: str) -> None:
    core.configure(name, value)


@pytest.fixture
def switched(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """Set the switches; afterwards they are as before."""
    core.open()
    before = {name: core.setting(name) for name in request.param}
    for name, value in request.param.items():
        configure(name, value)
    yield request.param
    for name, value in before.items():
        configure(name, value)


@pytest.mark.parametrize(
    "switched",
    [dict(zip(SWITCHES, values, strict=True)) for values in itertools.product(*SWITCHES.values())],
    ids=lambda d: "".join(d.values()),
    indirect=True,
)
def test_the_founding_promise_under_every_combination(
    switched: dict[str, str], functional: torch.Tensor, tmp_path: Path
) -> None:
    fixtures = {"functional": functional, "tmp_path": tmp_path}
    for test in IN_PROCESS:
        test(**{name: fixtures[name] for name in inspect.signature(test).parameters})


# The other values of all variables that say how programs are compiled, kept and run. Those of a start are the places of
# three of five starts, another three for each: with a start of defaults, any two variables meet in all four ways.
OTHERS = {
    **dict.fromkeys(("XLA_DISABLE_FUNCTIONALIZATION", "XLA_IR_DEBUG", "XLA_SYNC_WAIT", "XLA_USE_SPMD"), "1"),
    **dict.fromkeys(("XLA_ENABLE_PARAM_ALIASING", "TORCH_GO_XLA_TORCH_KERNELS", "TORCH_GO_XLA_HUGE_PAGES"), "0"),
    "XLA_COMPILATION_CACHE_SIZE": "1",
    "XLA_PERSISTENT_CACHE_PATH": "programs",
    "CPU_NUM_DEVICES": "2",
}
STARTS = [
    {name for name, places in zip(OTHERS, itertools.combinations(range(5), 3), strict=True) if start in places}
    for start in range(5)
]


@pytest.mark.sampled
@pytest.mark.parametrize("start", range(5))
def test_the_founding_promise_under_every_pair(ok, start: int, tmp_path: Path) -> None:
    env = {name: OTHERS[name] for name in STARTS[start]}
    if "XLA_PERSISTENT_CACHE_PATH" in env:
        env["XLA_PERSISTENT_CACHE_PATH"] = str(tmp_path / "programs")
    tests = [f"{test_founding.__file__}::{test.__name__}" for test in IN_PROCESS]
    ok(f"import sys, pytest; sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', *{tests}]))", **env)


@pytest.mark.compiled
def test_what_is_written_for_the_curious(ok, python, tmp_path: Path) -> None:
    graphs, told = tmp_path / "graphs", tmp_path / "told"
    files = {"XLA_SAVE_TENSORS_FILE": str(graphs), "PT_XLA_DEBUG": "1", "PT_XLA_DEBUG_FILE": str(told)}
    done = python("config/graph.py", XLA_SAVE_TENSORS_FMT="hlo", XLA_HLO_DEBUG="1", **files)
    assert done.code == 0 and "compiles a program" not in done.err
    assert "compiles a program" in told.read_text()
    assert "stablehlo.add" in graphs.read_text() and "graph.py" in graphs.read_text()
    ok("config/graph.py", XLA_SAVE_TENSORS_FMT="dot", **files)
    assert "digraph" in graphs.read_text() and told.read_text().count("compiles a program") == 2
    refused = python("config/graph.py", XLA_SAVE_TENSORS_FMT="png")
    assert refused.code == 1 and "want text, dot or hlo" in refused.err


def test_spmd_by_variable(ok) -> None:
    assert ok("founding/article.py", "spmd", XLA_USE_SPMD="1", CPU_NUM_DEVICES="2").split() == ["equal", "True", "1"]
    first = "import torch_go_xla.runtime as xr; print(xr.is_spmd(), xr.global_runtime_device_count())"
    assert ok(first, XLA_USE_SPMD="1", CPU_NUM_DEVICES="2").split() == ["True", "2"], "before anything opens the device"


def test_spawned_processes_use_spmd_too(ok) -> None:
    assert ok("spmd_api/spawned.py", CPU_NUM_DEVICES="2").split() == ["True"]


def test_the_page_is_the_table() -> None:
    page = Path(__file__).parents[2] / "docs" / "environment.md"
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*) \|$", page.read_text(), re.M)
    table = [(name, f"`{default}`" if default else "", doc) for name, _, default, doc in core.config_table()]
    assert rows[: len(table)] == table
