"""What the benchmarks make of their samples."""

from pathlib import Path

import pytest
import torch

from benchmarks import cases, op_cases, op_speed, peers, report, subjects


def test_ratios_are_of_medians_and_of_bests() -> None:
    """A single lucky sample moves the best, and not the median."""
    times = {"trace-add": {"torch": [2e-6, 4e-6, 4e-6, 4e-6, 6e-6], "torch_go_xla": [1e-6, 6e-6, 6e-6, 6e-6, 8e-6]}}
    ours = report.figures(times)["trace-add"]["torch_go_xla"]
    assert (ours["median"], ours["best"], ours["spread"]) == pytest.approx((6, 1, 0))
    assert (ours["ratio"], ours["ratio_of_bests"]) == pytest.approx((1.5, 0.5))
    assert "6 ± 0 (1), **1.50x (0.50x)**" in report.row(
        "trace-add", report.figures(times)["trace-add"], list(times["trace-add"]), quick=True
    )


def test_a_subject_may_be_missing() -> None:
    """Without the reference there is no ratio; without samples there is no figure."""
    assert report.figures({"trace-add": {"torch": [], "torch_go_xla": [1e-6]}})["trace-add"].keys() == {"torch_go_xla"}
    assert report.figures({"trace-add": {"torch_go_xla": [1e-6]}})["trace-add"]["torch_go_xla"]["ratio"] is None
    for theirs, ours in ((0.0, 1e6), (-1e5, 1e6), (1e6, -1e5)):  # a growth that is none
        figures = report.figures({"save-memory": {"torch": [theirs], "torch_go_xla": [ours]}})
        assert figures["save-memory"]["torch_go_xla"]["ratio"] is None


@pytest.mark.parametrize(
    ("case", "ours", "of", "other", "reached"),
    [
        ("trace-add", 2e-6, "torch_xla", 13e-6, ["≤ 2.2: 2, reached", "≤ 0.2 × torch_xla: 0.154, reached"]),
        ("import", 3.0, "torch", 2.5, ["≤ torch + 0.4: 0.5, **not reached**"]),
        ("mlp-compiled", 4e-3, "torchax", 3.2e-3, ["≤ 1 × the best peer: 1.25, **not reached**"]),
        ("fused", 4e-3, "torch", 3.2e-3, ["≤ 1 × jax |"]),  # which was not measured
    ],
)
def test_what_shall_be_reached(case: str, ours: float, of: str, other: float, reached: list[str]) -> None:
    """A target is judged by the median, in units or against a peer, and named where the peer is missing."""
    times = {case: {of: [other], "torch_go_xla": [ours]}}
    row = report.row(case, report.figures(times)[case], list(times[case]), quick=False)
    for text in reached:
        assert text in row


def test_runs_add_up(tmp_path: Path) -> None:
    """A run of some cases keeps the results of the others, unless those were of another kind."""
    runs = {case: report.run({"torch": [1.0, 2.0]}, 0.5) for case in ("import", "trace-add")}
    report.write(tmp_path, {"import": runs["import"]}, quick=False)
    assert report.read(tmp_path, quick=True) == {}
    kept = report.read(tmp_path, quick=False)
    report.write(tmp_path, {**kept, "trace-add": runs["trace-add"]}, quick=False)
    assert report.read(tmp_path, quick=False) == runs
    assert (tmp_path / "results.md").read_text().count("\n| ") == 3
    assert "<svg" in (tmp_path / "results.svg").read_text()


def test_peers_that_are_missing_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer without an environment, or without a Python to make it, is a LookupError that says so."""
    monkeypatch.setenv("BENCH_PEERS", str(tmp_path))
    with pytest.raises(LookupError, match=r"not installed: python -m benchmarks\.peers jax"):
        subjects.python("jax")
    with pytest.raises(LookupError, match=r"no Python 3\.0 or 3\.1$"):
        peers.interpreter(("3.0", "3.1"))
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "installed").write_text("jax==0.0.1")
    with pytest.raises(LookupError, match="not installed"):  # another version
        subjects.python("jax")


@pytest.mark.parametrize("name", subjects.names())
def test_subjects_say_what_they_do(name: str) -> None:
    """Every case that a subject takes is one that it, or all, can run."""
    module = subjects.load(name)
    own = getattr(module, "OWN", {})
    for case in cases.SPECS:
        if subjects.takes(name, case):
            assert case == "import" or case in own or case in cases.CASES
    assert set(own) | set(getattr(module, "CASES", ())) <= set(cases.SPECS)


def test_ops_are_sorted_by_their_ratio_to_the_best_peer() -> None:
    """An op that a peer lacks is compared with the others; one that we cannot do has no row."""
    rows = {
        "fast": {"torch": 2e-3, "jax": 4e-3, "torch_go_xla": 1e-3},
        "slow": {"torch": 4e-3, "jax": 1e-3, "torch_go_xla": 2e-3},
        "alone": {"torch": 1e-3, "torch_go_xla": 1e-3},
        "absent": {"torch": 1e-3},
    }
    text = op_speed.page(rows)
    assert "3 pairs: 2 at or ahead of the best peer, 0 behind by more than 2 ×. Geometric mean 1.00 ×." in text
    assert [line.split(" | ")[0] for line in text.splitlines()[4:]] == ["| slow", "| alone", "| fast"]
    assert "| alone | 1.000 |  | 1.000 | 1.00 |" in text


SIZED_BY_VALUES = ("unique", "bincount", "nonzero", "masked_select")


def test_every_op_is_one_of_torch() -> None:
    """Each case runs on operands without values, unless the result's size depends on these."""
    for key, case in op_cases.OPS.items():
        if case.name in SIZED_BY_VALUES:
            continue
        args = [
            torch.empty(s, dtype=getattr(torch, case.dtype), device="meta").requires_grad_(case.grads)
            for s in case.shapes
        ]
        out = case.op(torch, *args)
        if case.grads:
            assert all(g is not None for g in torch.autograd.grad(out.sum(), args)), key


def test_operands_of_an_op_are_repeatable() -> None:
    case = op_cases.OpCase("cholesky", ((8, 8),), lambda t, x: t.linalg.cholesky(x), spd=True)
    first, again = op_cases.operands(case), op_cases.operands(case)
    assert (first[0] == again[0]).all() and first[0].dtype == "float32"
    torch.linalg.cholesky(torch.from_numpy(first[0]))
    assert op_cases.operands(op_cases.OpCase("sort", ((9,),), torch.sort, "int64"))[0].dtype == "int64"
