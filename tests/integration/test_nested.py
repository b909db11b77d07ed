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


@pytest.mark.parametrize(
    "use",
    [
        lambda n: n - n,
        lambda n: torch.nested.to_padded_tensor(n, 0.0),
        lambda n: n[0].sum().backward(),
        lambda n: n.clone().backward(n),
        lambda n: n.unbind(),
        repr,
    ],
)
@pytest.mark.parametrize("needs_grad", [False, True])
def test_a_strided_one_made_of_tensors_of_the_cpu(use, needs_grad):
    """Torch makes it behind the dispatcher. What is done with it raises, and does not end the process."""
    parts = [torch.randn(3, 4), torch.randn(5, 4)]
    nested = torch.nested.nested_tensor(parts, requires_grad=needs_grad, device="xla")
    with pytest.raises((NotImplementedError, RuntimeError), match="nested tensors"):
        use(nested)
    assert nested._nested_tensor_size().tolist() == [[3, 4], [5, 4]]


def test_a_jagged_one_has_gradients():
    parts = [torch.ones(n, 8, device="xla", requires_grad=True) for n in (3, 5)]
    torch.nested.as_nested_tensor(parts, layout=torch.jagged).mul(2).values().sum().backward()
    assert [p.grad.unique().tolist() for p in parts] == [[2.0], [2.0]]
