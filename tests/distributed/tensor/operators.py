"""torch's descriptions of its ops on DTensors that torch's own test utilities make of the samples.

    python tests/distributed/tensor/operators.py [NAME...]

runs all ops, or those named, on 4 devices: values and gradients are compared with torch's on the CPU. Printed is what
differs; the exit status is 1 if something does without a reason in `DIFFERENCES`.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator
from typing import Any

os.environ.setdefault("CPU_NUM_DEVICES", "4")

import torch
import torch.testing._internal.common_methods_invocations as descriptions
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor
from torch.testing._internal.distributed._tensor.common_dtensor import DTensorConverter
from torch.utils._pytree import tree_leaves, tree_map_only

import torch_go_xla  # noqa: F401

# The sizes of the samples, such that they divide by the devices.
descriptions.L, descriptions.M, descriptions.S, descriptions.XS = 24, 16, 8, 2  # type: ignore[attr-defined]

_RANDOM = "draws random numbers, by another generator than the CPU's"

# By op: why it differs.
DIFFERENCES: dict[str, str] = {
    "argwhere": "its samples are for the sizes that torch has by default",
    "chalf": "the device has no complex32",
    "tensor_split": "torch wants the tensor of its indices on the CPU",
    "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu": "its second result is its own backward pass's",
    "linalg.eigh": "its vectors are unique up to their signs",
    "resize_": "torch's rule for it fails",
    "to_sparse": "a DTensor is dense",
    "unbind": "along a sharded dimension torch refuses it",
}
DIFFERENCES |= dict.fromkeys(
    ("as_strided", "as_strided.partial_views", "as_strided_copy", "as_strided_scatter", "stft"),
    "needs as_strided, which torch does not have for DTensors",
)
DIFFERENCES |= dict.fromkeys(
    [op.name for op in descriptions.op_db if op.name.startswith("jiterator_")], "is only for CUDA"
)
DIFFERENCES |= dict.fromkeys(
    (
        *("bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "normal", "normal.in_place"),
        *("normal.number_mean", "rand_like", "randint_like", "randn_like", "uniform"),
        *("nn.functional.alpha_dropout", "nn.functional.dropout", "nn.functional.dropout2d"),
        *("nn.functional.dropout3d", "nn.functional.feature_alpha_dropout.with_train", "nn.functional.rrelu"),
        *("nn.functional.fractional_max_pool3d", "nn.functional.multi_head_attention_forward"),
        *("pca_lowrank", "svd_lowrank"),
    ),
    _RANDOM,
)
DIFFERENCES |= dict.fromkeys(
    ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"),
    "leaves its result as it finds it",
)


def name_of(op: Any) -> str:
    """Return the name of a description, with its variant."""
    return ".".join(filter(None, (op.name, op.variant_test_name)))


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [t for t in tree_leaves(tree) if isinstance(t, torch.Tensor)]


def _gathered(t: torch.Tensor | None) -> torch.Tensor | None:
    """Return all of a tensor, on every device."""
    return t.full_tensor().detach() if isinstance(t, DTensor) else t


def _results(op: Any, args: Any, kwargs: Any) -> Iterator[torch.Tensor | None]:
    """Yield what an op returns, and the gradients of the sum of its squares."""
    outs = _tensors(op(*args, **kwargs))
    yield from outs
    inputs = [t for t in _tensors((args, kwargs)) if t.requires_grad]
    smooth = [t for t in outs if t.requires_grad and t.is_floating_point()]
    if smooth and inputs:
        yield from torch.autograd.grad(sum((t * t).sum() for t in smooth), inputs, allow_unused=True)


def check(op: Any, mesh: DeviceMesh, samples: int, placements: int) -> int:
    """Compare an op, over some samples and some placements of each, with the CPU; return how many were compared."""
    count = 0
    torch.manual_seed(0)
    for sample in itertools.islice(op.sample_inputs("cpu", torch.float64, requires_grad=op.supports_autograd), samples):
        call = ((sample.input, *sample.args), sample.kwargs)
        if "device" in sample.kwargs or any(t.layout != torch.strided for t in _tensors(call)):
            continue  # the device is the CPU there
        leaves = tree_map_only(torch.Tensor, lambda t: t.detach().requires_grad_(t.requires_grad), call)
        try:
            want = [None if t is None else t.detach() for t in _results(op, *leaves)]
        except (RuntimeError, NotImplementedError):
            continue  # no gradient on the CPU
        variants = itertools.islice(DTensorConverter(mesh, *leaves), placements)
        recorded = [[_gathered(t) for t in _results(op, *distributed)] for distributed in variants]  # one program
        for got in recorded:
            assert len(got) == len(want)
            for ours, theirs in zip(got, want, strict=True):
                if ours is None or theirs is None:
                    assert all(t is None or not t.any() for t in (ours, theirs))
                else:
                    torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-6, atol=1e-6, equal_nan=True)
            count += 1
    return count


def main(names: list[str]) -> int:
    """Print what differs; return the exit status."""
    mesh = init_device_mesh("xla", (int(os.environ["CPU_NUM_DEVICES"]),))
    unexplained = ops = count = 0
    for op in descriptions.op_db:
        if torch.float64 not in op.dtypes or names and op.name not in names:
            continue
        ops += 1
        try:
            count += check(op, mesh, samples=2, placements=6)
        except Exception as e:
            reason = DIFFERENCES.get(name_of(op))
            unexplained += reason is None
            print(f"{name_of(op)}: {reason or f'NOT EXPLAINED: {type(e).__name__}: {e}'}", flush=True)
    print(f"{ops} ops, {count} calls agree, {unexplained} ops without a reason")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
