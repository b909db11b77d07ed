"""The quick tier: float32 of every op, forward, backward and errors, a sample each; ``make conformance`` has all."""

from __future__ import annotations

import pytest
import torch

from . import expectations
from .cases import OPS, supported
from .runner import TORCH_DIES, Job, run
from .table import counts, passes

KINDS = ("forward", "backward", "errors")


@pytest.fixture(scope="module")
def outcomes():
    """Check all ops in guarded processes."""
    jobs = [Job(name, "float32", KINDS, 1) for name, op in OPS.items() if supported(op, torch.float32, "forward")]
    return {(r["op"], r["kind"]): r for r in run(jobs, processes=2) if counts(r)}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_ops_equal_the_cpu(outcomes, kind):
    mine = {op: r for (op, k), r in outcomes.items() if k == kind}
    wrong = {op: (r["failures"], r["fallbacks"]) for op, r in mine.items() if not passes(r)}
    assert {op: why for op, why in wrong.items() if not expectations.reason(op, kind, "float32")} == {}
    fixed = [op for op in mine if op not in wrong and expectations.never_passes(op, kind, "float32")]
    assert fixed == [], "these pass now: strike them from expectations.py"
    assert len(wrong) <= 0.025 * len(mine)


@pytest.mark.slow
def test_a_death_is_reported():
    """A worker that dies names its op, and the ops after it are checked. If torch dies alone, it is torch."""
    jobs = [Job(name, "float32", ("edge",), 1) for name in ("_chunk_cat", "no_such_op", "abs")]
    torchs, dead, alive = run(jobs)
    assert torchs["failures"][0].startswith(TORCH_DIES) and not counts(torchs)
    assert dead["failures"][0].startswith("crash: exit 1") and "no_such_op" in dead["failures"][0]
    assert passes(alive) and alive["passed"] == 2
