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
        lambda n: n + n.transpose(-1, -2).transpose(-1, -2),
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
    try:
        nested = torch.nested.nested_tensor(
            [torch.randn(3, 4), torch.randn(5, 4)], requires_grad=needs_grad, device="xla"
        )
        assert [p.tolist() for p in nested._nested_tensor_size()] == [[3, 4], [5, 4]]
        use(nested)
    except (NotImplementedError, RuntimeError) as e:
        assert "nested tensors" in str(e)  # noqa: PT017
    else:
        pytest.fail("the use of it is not refused")


def test_a_jagged_one_has_gradients():
    parts = [torch.ones(n, 8, device="xla", requires_grad=True) for n in (3, 5)]
    torch.nested.as_nested_tensor(parts, layout=torch.jagged).mul(2).values().sum().backward()
    assert [p.grad.unique().tolist() for p in parts] == [[2.0], [2.0]]
