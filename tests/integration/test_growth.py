"""What a long-lived process makes again and again does not pile up."""

from __future__ import annotations

import pytest
import torch

import torch_go_xla


def test_a_learning_rate_that_changes() -> None:
    """Each rate makes a call of its own; what is known of old ones is dropped, and what is replayed stays."""
    weight = torch.zeros(4, device="xla")

    @torch_go_xla.compile
    def step(rate: float) -> torch.Tensor:
        weight.add_(rate)
        return weight.sum()

    for _ in range(3):
        step(1.0)
    for k in range(300):
        step(k / 1024)
    replays = step.replays
    step(1.0)
    assert step.replays == replays + 1
    (recorded,) = step._recorded.values()
    assert len(recorded._digests) <= 64 and len(recorded._captures) <= 64 and recorded.graphs == 301
    expected = 4.0 + sum(k / 1024 for k in range(300))
    torch.testing.assert_close(weight.cpu(), torch.full((4,), expected))


def test_many_captured_calls() -> None:
    """New calls are captured where many are already."""

    @torch_go_xla.compile
    def step(x: torch.Tensor, k: int) -> torch.Tensor:
        return x + k

    x = torch.zeros(2, device="xla")
    for k in range(80):
        for _ in range(3):
            assert step(x, k).tolist() == [k, k]
    assert step.replays == 80


def test_captured_programs_are_bounded_by_the_cache(ok) -> None:

    misses, _ = ok("growth/captured_programs_are_bounded_by_the_cache.py", XLA_COMPILATION_CACHE_SIZE="2").split()
    assert int(misses) > 0, "a program that had left the cache was replayed"
    misses, replays = ok("growth/captured_programs_are_bounded_by_the_cache.py").split()
    assert (int(misses), int(replays)) == (0, 12)


@pytest.mark.longer
def test_functions_of_control_flow() -> None:
    """More functions than are kept, all called by one graph; then again in a graph each."""
    x = torch.arange(3.0, device="xla")
    yes = (x.sum() > 0).reshape(())

    def chosen(k: int) -> torch.Tensor:
        return torch.cond(yes, lambda x: x * k + 0.5, lambda x: x - k - 0.25, (x,))

    recorded = [chosen(k) for k in range(3, 153)]
    torch_go_xla.sync()
    for k, y in enumerate(recorded, 3):
        assert y.tolist() == [0.5, k + 0.5, 2 * k + 0.5]
    for k in range(153, 173):
        assert chosen(k).tolist() == [0.5, k + 0.5, 2 * k + 0.5]
