"""The quick models of the zoo; ``make models`` runs all of them."""

from __future__ import annotations

import pytest

from .check import run
from .rows import ROWS


@pytest.mark.slow
@pytest.mark.parametrize("row", [r for r in ROWS if r.quick], ids=lambda r: r.name)
def test_it_learns_as_on_the_cpu(row) -> None:
    report = run(row)
    assert report.problems == []
    assert report.first <= 4, "more programs than a first and a steady one, each with a look at a mask"
