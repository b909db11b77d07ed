"""Nested tensors: jagged ones, and the refusal of the others."""

from __future__ import annotations

import pytest
import torch

import torch_go_xla  # noqa: F401


def test_a_strided_one_is_refused():
    parts = [torch.ones(n, 8, device="xla", requires_grad=True) for n in (3, 5)]
    for make in (torch.nested.as_nested_tensor, torch.nested.nested_tensor):
        with pytest.raises(NotImplementedError, match="use torch.jagged"):
            make(parts)


def test_a_jagged_one_has_gradients():
    parts = [torch.ones(n, 8, device="xla", requires_grad=True) for n in (3, 5)]
    torch.nested.as_nested_tensor(parts, layout=torch.jagged).mul(2).values().sum().backward()
    assert [p.grad.unique().tolist() for p in parts] == [[2.0], [2.0]]
