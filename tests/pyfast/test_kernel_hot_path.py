"""Ops of a training step go from torch's dispatcher to the core in C: no Python function, no meta tensor, no CPU."""

from __future__ import annotations

import sys
from types import FrameType

import pytest
import torch
from learners import MODELS, OPTIMIZERS, Learner, learners

import torch_go_xla
import torch_go_xla.debug.metrics as met

# Python that an op without a kernel of its own would run: ours, torch's decompositions and its meta functions.
PYTHON_OF_OPS = (
    "/torch_go_xla/_backend/", "/torch/_decomp/", "/torch/_refs/", "/torch/_prims", "/torch/_meta_registrations",
    "/torch/_library/", "/torch/library.py",
)  # fmt: skip
# What belongs to a step, not to an op: autograd asks whether the device is in use before it starts, an optimizer's
# hook makes its state, Adam asks whether a graph is being captured.
OF_A_STEP = {"has_primary_context", "_begin", "is_available", "current_device", "device_index", "native"}
# Which ops attention is composed of, torch decides in C++ for its own devices, and this file for ours. Its Python takes
# a tenth of the time of recording what its choice replaces.
ATTENTION = "/torch_go_xla/_backend/composed/attention.py"


class Calls:
    """Notes the functions of `PYTHON_OF_OPS` that this thread calls."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def __enter__(self) -> Calls:
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or code.co_name in OF_A_STEP:
            return
        caller = frame.f_back.f_code.co_filename if frame.f_back else ""
        if code.co_filename.endswith(ATTENTION) or caller.endswith(ATTENTION):
            return
        if any(part in code.co_filename for part in PYTHON_OF_OPS):
            self.seen.add(f"{code.co_filename}:{code.co_firstlineno} {code.co_name}")


def step(learner: Learner) -> None:
    """Record a step; ending it is not an op's work."""
    learner.optimizer.zero_grad()
    torch.nn.functional.cross_entropy(learner.model(learner.x), learner.y).backward()
    learner.optimizer.step()


@pytest.mark.parametrize("foreach", [False, True], ids=["single", "foreach"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("make", MODELS, ids=lambda m: m.__name__)
def test_a_training_step_runs_no_python_of_ops(make, optimizer: str, foreach: bool) -> None:
    _, learner = learners(make, OPTIMIZERS[optimizer], foreach=foreach)
    met.clear_all()
    # The thread that is profiled runs the backward pass too.
    with torch.autograd.set_multithreading_enabled(False):
        step(learner)  # makes the optimizer's state
        before = met.counter_value("TracedOps") or 0
        with Calls() as calls:
            step(learner)
    assert (met.counter_value("TracedOps") or 0) - before > 20, "the step recorded nothing"
    assert not calls.seen, "\n".join(sorted(calls.seen))
    assert met.executed_fallback_ops() == []


def test_python_of_an_op_is_noticed() -> None:
    x = torch.ones(3, 3, device="xla")
    with Calls() as calls:
        torch.ops.aten.linalg_eigvals(x)
    assert calls.seen
    torch_go_xla.sync()
