"""Whole models learn as on torch CPU: the same losses and weights, one program a step, nothing on the CPU."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from learners import MODELS, OPTIMIZERS, gpt, gpt_fused, learners, mlp, resnet
from torch import nn

import torch_go_xla
import torch_go_xla.debug.metrics as met

pytestmark = pytest.mark.longer

# Compiling the large ones for every optimizer takes long.
TRAINED = [mlp, *(pytest.param(m, marks=pytest.mark.slow) for m in (resnet, gpt, gpt_fused))]


def compilations() -> int:
    """Return how many programs were compiled since the counters were cleared; compilation is in the background."""
    torch_go_xla.sync(wait=True)
    return met.counter_value("UncachedCompile") or 0


def close(actual: torch.Tensor, expected: torch.Tensor, name: str) -> None:
    """Check values that went through several steps of float32."""
    torch.testing.assert_close(actual.cpu(), expected, rtol=2e-4, atol=2e-5, msg=lambda m: f"{name}: {m}")


@pytest.mark.parametrize("foreach", [False, True], ids=["single", "foreach"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("make", TRAINED, ids=lambda m: m.__name__)
def test_training_is_as_on_the_cpu(make, optimizer: str, foreach: bool) -> None:
    here, there = learners(make, OPTIMIZERS[optimizer], foreach=foreach)
    torch_go_xla.sync(wait=True)
    met.clear_all()
    losses = [[learner.step() for _ in range(3)] for learner in (here, there)]
    # The first step makes the optimizer's state.
    first = compilations()
    assert first <= 3, "more than a first program and a steady one"
    for learner, seen in zip((here, there), losses, strict=True):
        seen += [learner.step() for _ in range(3)]
    assert compilations() == first, "a steady loop was compiled again"

    for step, (expected, actual) in enumerate(zip(*losses, strict=True)):
        close(actual, expected, f"loss of step {step}")
    state = there.model.state_dict()
    for name, expected in here.model.state_dict().items():
        close(state[name], expected, name)
    assert met.executed_fallback_ops() == []


@pytest.mark.parametrize("make", MODELS, ids=lambda m: m.__name__)
def test_evaluation_is_as_on_the_cpu(make) -> None:
    here, there = learners(make, OPTIMIZERS["sgd"])
    met.clear_all()
    with torch.no_grad():
        expected, actual = (learner.model.eval()(learner.x) for learner in (here, there))
    close(actual, expected, "output")
    assert met.executed_fallback_ops() == []


def test_a_learning_rate_is_no_reason_to_compile() -> None:
    """A schedule changes a number in every step; numbers are arguments."""
    here, there = learners(mlp, OPTIMIZERS["adamw"])
    schedules = [torch.optim.lr_scheduler.CosineAnnealingLR(learner.optimizer, 10) for learner in (here, there)]
    losses: list[list[torch.Tensor]] = [[], []]
    for step in range(6):
        if step == 3:
            torch_go_xla.sync(wait=True)
            met.clear_all()
        for learner, schedule, seen in zip((here, there), schedules, losses, strict=True):
            seen.append(learner.step())
            schedule.step()
    assert compilations() == 0
    for expected, actual in zip(*losses, strict=True):
        close(actual, expected, "loss")


def test_gradients_gathered_over_batches() -> None:
    """Several backward passes to one step, with the norm of the gradients limited."""
    here, there = learners(mlp, OPTIMIZERS["sgd"])
    for learner in (here, there):
        for _ in range(4):
            learner.optimizer.zero_grad()
            for part in range(2):
                half = slice(4 * part, 4 * part + 4)
                F.cross_entropy(learner.model(learner.x[half]), learner.y[half]).backward()
                torch_go_xla.sync()
            nn.utils.clip_grad_norm_(learner.model.parameters(), 0.1)
            learner.optimizer.step()
    state = there.model.state_dict()
    for name, expected in here.model.state_dict().items():
        close(state[name], expected, name)
