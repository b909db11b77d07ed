"""Trains a model of the zoo on the CPU and on xla, and says how they differ and what was compiled.

The CPU computes in float64: in float32 it may be farther from the truth than xla is (an activation that is zero but for
rounding has a gradient, or has none), and two roundings of a truth say nothing about each other.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import nn

import torch_go_xla
import torch_go_xla.debug.metrics as met

from .rows import Batch, Row

# Steps that are compared, and steps of which none may compile.
COMPARED, STEADY = 3, 3

# What float32 may differ by from float64, of the largest value of a tensor.
TOLERANCE = 2e-3


@dataclass
class Report:
    """What came of a row."""

    name: str
    parameters: int = 0
    first: int = 0  # compilations until the steps are steady
    steady: int = 0  # compilations in steady state
    syncs: float = 0.0  # graphs a steady step
    fallbacks: list[str] = field(default_factory=list)
    errors: dict[str, float] = field(default_factory=dict)  # the largest by kind, of the tensor's largest value
    generated: int = -1  # compilations of a second call of generate

    @property
    def problems(self) -> list[str]:
        """Say what does not hold."""
        out = [f"{what} differ by {error:.1e}" for what, error in self.errors.items() if not error <= TOLERANCE]
        out += [f"{op} ran on the CPU" for op in self.fallbacks]
        if self.steady:
            out.append(f"{self.steady} compilations in steady state")
        if self.generated > 0:
            out.append(f"{self.generated} compilations when generating again")
        return out


def error(actual: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor]) -> float:
    """Return the largest difference, each relative to the largest value of its tensor.

    A tensor whose values are all tiny beside the others' (the gradient of a bias that does not matter) is rounding.
    """
    assert actual.keys() == expected.keys()
    largest = max(float(e.abs().max()) for e in expected.values())
    worst = 0.0
    for name, e in expected.items():
        difference = (actual[name].cpu().double() - e).abs().max()
        worst = max(worst, float(difference / e.abs().max().clamp(min=1e-2 * largest)))
        assert difference == difference, f"{name} is not a number"
    return worst


class Learner:
    """A model with its optimizer on one device."""

    def __init__(self, row: Row, model: nn.Module, device: str) -> None:
        self.row, self.device = row, device
        self.dtype = row.here if device == "cpu" else row.there
        self.model = model.to(device, self.dtype).train()
        self.optimizer = row.optimizer(p for p in self.model.parameters() if p.requires_grad)

    def here(self, batch: Batch) -> Batch:
        """Return a batch on the device, in the type of the model."""
        return {k: v.to(self.device, self.dtype if v.is_floating_point() else v.dtype) for k, v in batch.items()}

    def step(self, batch: Batch) -> torch.Tensor:
        """Take one step; returns the loss of before."""
        self.optimizer.zero_grad()
        loss = self.row.loss(self.model, self.here(batch))
        loss.backward()
        self.optimizer.step()
        if self.device == "xla":
            torch_go_xla.sync()
        return loss.detach()

    def gradients(self) -> dict[str, torch.Tensor]:
        """Return the gradients by the names of their parameters."""
        return {n: p.grad for n, p in self.model.named_parameters() if p.grad is not None}

    def values(self) -> dict[str, torch.Tensor]:
        """Return parameters and buffers."""
        return {n: v.detach() for n, v in self.model.state_dict().items() if v.is_floating_point()}


def compilations() -> int:
    """Return how many programs were compiled since the counters were cleared; compilation is in the background."""
    torch_go_xla.sync(wait=True)
    return met.counter_value("UncachedCompile") or 0


def run(row: Row) -> Report:
    """Train, go on in steady state, evaluate, and generate where the model does."""
    warnings.filterwarnings("ignore", module="transformers")
    torch.manual_seed(0)
    model = row.make()
    report = Report(row.name, sum(p.numel() for p in model.parameters()))
    here, there = Learner(row, copy.deepcopy(model), "cpu"), Learner(row, model, "xla")
    torch_go_xla.sync(wait=True)
    met.clear_all()
    for step in range(COMPARED):
        batch = row.batch()
        losses = {d.device: {"loss": d.step(batch)} for d in (here, there)}
        note(report, "losses", error(losses["xla"], losses["cpu"]))
        if not step:
            note(report, "gradients", error(there.gradients(), here.gradients()))
    note(report, "parameters", error(there.values(), here.values()))
    report.first = compilations()
    before = met.counter_value("SyncTensorsGraph") or 0
    for _ in range(STEADY):
        there.step(row.batch())
    report.steady = compilations() - report.first
    report.syncs = ((met.counter_value("SyncTensorsGraph") or 0) - before) / STEADY
    there.model.load_state_dict(here.model.state_dict())
    with torch.no_grad():
        batch = row.batch()
        losses = {d.device: {"loss": evaluate(d, batch)} for d in (here, there)}
    note(report, "evaluation", error(losses["xla"], losses["cpu"]))
    if row.prompt:
        generate(row, here.model, there.model, report)
    report.fallbacks = met.executed_fallback_ops()
    return report


def note(report: Report, kind: str, value: float) -> None:
    """Keep the largest error of a kind."""
    report.errors[kind] = max(report.errors.get(kind, 0.0), value)


def evaluate(learner: Learner, batch: Batch) -> torch.Tensor:
    """Return the loss of a model that is not trained."""
    return learner.row.loss(learner.model.eval(), learner.here(batch)).detach()


def generate(row: Row, here: nn.Module, there: nn.Module, report: Report) -> None:
    """Generate words greedily with a key-value cache of one size, twice; the second time compiles nothing."""
    for again in (False, True):
        words = row.batch()[row.prompt]
        before = compilations()
        expected, actual = (
            m.generate(words.to(d), attention_mask=torch.ones_like(words, device=d), max_new_tokens=6, min_new_tokens=6,
                       do_sample=False, cache_implementation="static")
            for m, d in ((here, "cpu"), (there, "xla"))
        )  # fmt: skip
        note(report, "words", float((actual.cpu() != expected).sum()))
        if again:
            report.generated = compilations() - before
