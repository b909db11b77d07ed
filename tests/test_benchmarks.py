"""What the benchmarks make of their samples."""

import pytest

from benchmarks import report


def test_ratios_are_of_medians_and_of_bests() -> None:
    """A single lucky sample moves the best, and not the median."""
    times = {"trace-add": {"torch": [2e-6, 4e-6, 4e-6, 4e-6, 6e-6], "torch_go_xla": [1e-6, 6e-6, 6e-6, 6e-6, 8e-6]}}
    ours = report.figures(times)["trace-add"]["torch_go_xla"]
    assert (ours["median"], ours["best"], ours["spread"]) == pytest.approx((6, 1, 0))
    assert (ours["ratio"], ours["ratio_of_bests"]) == pytest.approx((1.5, 0.5))
    assert "6 ± 0 (1), **1.50x (0.50x)**" in report.row(
        "trace-add", report.figures(times)["trace-add"], list(times["trace-add"])
    )


def test_a_subject_may_be_missing() -> None:
    """Without the reference there is no ratio; without samples there is no figure."""
    assert report.figures({"trace-add": {"torch": [], "torch_go_xla": [1e-6]}})["trace-add"].keys() == {"torch_go_xla"}
    assert report.figures({"trace-add": {"torch_go_xla": [1e-6]}})["trace-add"]["torch_go_xla"]["ratio"] is None
