"""The state of an optimizer, divided among processes."""

from __future__ import annotations

import jobs
import pytest

pytestmark = [pytest.mark.longer, pytest.mark.xdist_group("processes")]


def test_it_trains_as_torchs_optimizer_does() -> None:
    assert all("done" in out for out in jobs.check("jobs/zero_redundancy.py", 2))


def test_one_process(ok) -> None:
    assert "done" in ok("jobs/zero_redundancy.py")
