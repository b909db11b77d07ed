"""torch's own test utilities for DTensor on the device xla: its models, and its ops on samples that it distributes."""

from __future__ import annotations

import copy

import operators
import pytest
import torch
from torch.distributed.tensor import DTensor
from torch.testing._internal.distributed._tensor.common_dtensor import MLPModule, ModelArgs, Transformer
from whole import same, whole

# One of each way in which placements spread.
OPS = ("addmm", "cat", "cumsum", "gather", "index_select", "linalg.vector_norm", "nn.functional.layer_norm", "nonzero")
OPS += (
    "nn.functional.nll_loss",
    "nn.functional.scaled_dot_product_attention",
    "std_mean",
    "topk",
    "transpose",
    "where",
)


@pytest.mark.parametrize("name", OPS)
def test_ops(mesh, name) -> None:
    found = [op for op in operators.descriptions.op_db if operators.name_of(op) == name]
    assert sum(operators.check(op, mesh, samples=1, placements=4) for op in found)


@pytest.mark.parametrize("local", [False, True])
def test_transformer(local: bool) -> None:
    """torch's model for tests of tensor parallelism, with sequence parallelism, over as many devices as heads."""
    mesh = torch.distributed.device_mesh.init_device_mesh("xla", (8,))
    torch.manual_seed(0)
    reference = Transformer(ModelArgs(n_layers=1, vocab_size=16, n_heads=8, dim=32, dropout_p=0.0))
    model = copy.deepcopy(reference).to("xla")
    model = Transformer.parallelize(model, mesh, use_seq_parallel=True, local_output_for_attn=local)
    tokens = torch.randint(16, (4, 8))
    out, want = model(tokens.to("xla")), reference(tokens)
    same(out, want, rtol=1e-4, atol=1e-5)
    out.square().sum().backward()
    want.square().sum().backward()
    for p, q in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(whole(p.grad), q.grad, rtol=1e-3, atol=1e-4)
    assert isinstance(model.layers[0].attention.wq.weight, DTensor)


def test_mlp(mesh) -> None:
    module = MLPModule("cpu")
    x = torch.randn(8, 10)
    same(torch.distributed.tensor.distribute_module(copy.deepcopy(module).to("xla"), mesh)(x.to("xla")), module(x))
