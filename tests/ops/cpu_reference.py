"""Runs ops on xla and on the CPU and compares.

A `Batch` records many samples and computes them in one sync: compiling is most of what a sample costs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map

import torch_go_xla
import torch_go_xla.debug.metrics as metrics

# Relative and absolute tolerance. Those of float32 and float64 are torch.testing's with room for another
# order of summation; half types are compared at the size of one rounding of their own.
TOLERANCE = {
    torch.float16: (2e-3, 1e-3),
    torch.bfloat16: (1.6e-2, 8e-3),
    torch.float32: (5e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex64: (5e-6, 1e-5),
    torch.complex128: (1e-7, 1e-7),
}

Tolerance = dict[torch.dtype, tuple[float, float]]


def to_xla(tree: Any) -> Any:
    """Copy all tensors of a tree to xla; those that require gradients do so there."""

    def one(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        return x.detach().to("xla").requires_grad_(x.requires_grad)

    return tree_map(one, tree)


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [x for x in tree_flatten(tree)[0] if isinstance(x, torch.Tensor)]


def _gradients(out: Any, leaves: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return the gradients by the leaves of a weighted sum of everything that has a gradient in out."""
    roots = [x for x in _tensors(out) if x.requires_grad]
    wanted = [x for x in leaves if x.requires_grad]
    if not roots or not wanted:
        return []
    seeds = [_ramp(x) for x in roots]
    found = torch.autograd.grad(roots, wanted, seeds, allow_unused=True)
    return [g for g in found if g is not None]


def _ramp(x: torch.Tensor) -> torch.Tensor:
    """Return gradients that differ from element to element, the same on every device."""
    values = torch.linspace(0.5, 1.5, max(x.numel(), 1), dtype=torch.float64)[: x.numel()]
    return values.reshape(x.shape).to(x.dtype).to(x.device)


class Batch:
    """Samples that are computed together."""

    def __init__(self, tolerance: Tolerance | None = None) -> None:
        self.tolerance = TOLERANCE | (tolerance or {})
        self.pending: list[tuple[str, torch.Tensor, torch.Tensor]] = []
        self.failures: list[str] = []

    def add(self, label: str, function: Callable[..., Any], *args: Any, backward: bool = False, **kwargs: Any) -> None:
        """Record function on the CPU and on xla, and its gradients."""
        there = to_xla((args, kwargs))
        want = function(*args, **kwargs)
        try:
            got = function(*there[0], **there[1])
            pairs = self._pair(_tensors(got), _tensors(want), label)
            if backward:
                ours = _gradients(got, _tensors(there))
                theirs = _gradients(want, _tensors((args, kwargs)))
                pairs += self._pair(ours, theirs, f"{label}, gradient")
        except Exception as error:  # noqa: BLE001 - reported with the other samples
            self.failures.append(f"{label}: {type(error).__name__}: {error}")
            return
        self.pending += pairs

    def _pair(self, got: list[Any], want: list[Any], label: str) -> list[tuple[str, Any, Any]]:
        if len(got) != len(want):
            raise AssertionError(f"{len(got)} tensors, expected {len(want)}")
        return [(f"{label}, result {i}", g, w) for i, (g, w) in enumerate(zip(got, want, strict=True))]

    def check(self) -> None:
        """Compute everything and compare it."""
        torch_go_xla.sync()
        for label, got, want in self.pending:
            rtol, atol = self.tolerance.get(want.dtype, (0, 0))
            try:
                torch.testing.assert_close(got.cpu(), want, rtol=rtol, atol=atol, equal_nan=True)
            except (AssertionError, RuntimeError) as error:
                self.failures.append(f"{label}: {' '.join(str(error).split())}")
        self.pending.clear()
        if self.failures:
            text = "\n".join(self.failures[:20])
            raise AssertionError(f"{len(self.failures)} samples differ:\n{text}")


def _spread(samples: list[Any], most: int) -> list[Any]:
    """Pick some of the samples, first and last among them."""
    if len(samples) <= most:
        return samples
    return [samples[i * (len(samples) - 1) // (most - 1)] for i in range(most)]


def opinfos(name: str) -> Iterator[Any]:
    """Yield torch's test descriptions of an op."""
    found = [op for op in op_db if op.name == name]
    assert found, f"torch has no OpInfo {name}"
    yield from found


def check_opinfo(
    name: str,
    dtypes: Iterable[torch.dtype],
    *,
    most: int = 10,
    tolerance: Tolerance | None = None,
    skip: Callable[[torch.dtype, Any], bool] | None = None,
    result: Callable[[Any], Any] = lambda out: out,
    no_backward: bool = False,
) -> None:
    """Compare an op over its OpInfo samples: float32 forward and backward, fewer samples of other types forward.

    result picks what of the output is compared.
    """
    batch = Batch(tolerance)
    for op in opinfos(name):
        for dtype in dtypes:
            if dtype not in op.supported_dtypes("cpu"):
                continue
            full = dtype == torch.float32
            backward = full and not no_backward and op.supports_autograd
            torch.manual_seed(0)
            samples = [
                s for s in op.sample_inputs("cpu", dtype, requires_grad=backward) if skip is None or not skip(dtype, s)
            ]
            for i, s in enumerate(_spread(samples, most if full else max(most // 3, 2))):
                label = f"{op.formatted_name} {dtype} sample {i}"
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    batch.add(
                        label,
                        lambda *a, op=op, **k: result(op(*a, **k)),
                        s.input,
                        *s.args,
                        backward=backward,
                        **s.kwargs,
                    )
    batch.check()


def check_errors(name: str, *, skip: Callable[[Any], bool] | None = None) -> None:
    """Compare the exceptions of an op's OpInfo error inputs."""
    failures = []
    for op in opinfos(name):
        if op.error_inputs_func is None:
            continue
        for e in op.error_inputs("cpu"):
            s = e.sample_input
            if skip is not None and skip(s) or any(x.dim() > 64 for x in _tensors(s.input)):
                continue  # xla has no tensors of more than 64 dimensions
            kinds = []
            for move in (lambda tree: tree, to_xla):
                args, kwargs = move(((s.input, *s.args), s.kwargs))
                try:
                    op(*args, **kwargs)
                    kinds.append((None, ""))
                except Exception as error:  # noqa: BLE001 - its class is what is compared
                    kinds.append((type(error), str(error).splitlines()[0] if str(error) else ""))
            (want, text), (got, ours) = kinds
            if want is None or got is not None and issubclass(got, want):
                continue
            failures.append(f"{op.formatted_name}: {want.__name__} ({text}), on xla {got and got.__name__} ({ours})")
    assert not failures, "\n".join(failures)


def fallbacks(prefixes: Iterable[str]) -> list[str]:
    """Return which of these ops have run on the CPU for want of a lowering."""
    names = {f"aten::{p}" for p in prefixes}
    return [n for n in metrics.executed_fallback_ops() if n in names]
