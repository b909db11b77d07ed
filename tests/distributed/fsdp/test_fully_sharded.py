"""torch_xla's first wrapper for fully sharded training, in one process and in two, against torch on the CPU."""

from __future__ import annotations

import jobs
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("processes")]


@pytest.mark.parametrize("processes", [1, 2])
def test_it_trains_as_one_process(processes: int) -> None:
    jobs.check("fully_sharded/program.py", processes)
