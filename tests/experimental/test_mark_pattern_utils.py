"""Composites: what lies between marks is one operation by name, and computes the same."""

from __future__ import annotations

import re

import pytest
import torch
import torch.nn.functional as F

import torch_go_xla
import torch_go_xla.core.xla_model as xm
import torch_go_xla.debug.metrics as met
from torch_go_xla import stablehlo
from torch_go_xla.experimental.mark_pattern_utils import StableHLOCompositeBuilder


def gelu(x: torch.Tensor) -> torch.Tensor:
    attributes = {
        "approximate": "tanh",
        "of": 2,
        "at": 0.5,
        "on": True,
        "n": [1, 2],
        "a b": [True, False],
        "1": [0.5, -1.0],
    }
    builder = StableHLOCompositeBuilder("test.gelu", attributes)
    return builder.mark_outputs(F.gelu(builder.mark_inputs(x), approximate="tanh"))


def composites(text: str) -> list[tuple[str, str]]:
    """Return name and operands of the composites of @main, in order."""
    main = text[text.index("@main") :]
    main = main[: main.index("\n  }")]
    return re.findall(r'"?stablehlo\.composite"?[ (]*((?:%\w+(?:, )?)*)\)? ?<?\{?.*?name = "([^"]*)"', main)


def test_one_operation_with_its_attributes() -> None:
    x = torch.randn(4, 3)
    y = gelu(x.to("xla") * 2) + 1
    text = xm.get_stablehlo([y])
    assert [name for _, name in composites(text)] == ["test.gelu"], text
    for attribute in (
        'approximate = "tanh"', "of = 2 : i64", "at = 0.5 : f32", "on = true", "n = dense<[1, 2]> : tensor<2xi64>",
        '"a b" = dense<[true, false]> : tensor<2xi1>', '"1" = dense<[0.5, -1.0]> : tensor<2xf32>',
    ):  # fmt: skip
        assert attribute in text
    main = text[text.index("@main") :]
    assert "stablehlo.tanh" not in main[: main.index("\n  }")]  # only its function computes it
    torch.testing.assert_close(y.cpu(), F.gelu(x * 2, approximate="tanh") + 1)


def test_several_operands_results_and_weights() -> None:
    def attention(q: torch.Tensor, k: torch.Tensor, w: torch.Tensor, by: float) -> tuple[torch.Tensor, torch.Tensor]:
        builder = StableHLOCompositeBuilder("test.attention")
        q, k = builder.mark_inputs(q, k)
        scores = (q @ k.T * by).softmax(-1)
        return builder.mark_outputs(scores @ (k @ w), scores)  # type: ignore[no-any-return]

    q, k, w = torch.randn(3, 4), torch.randn(5, 4), torch.randn(4, 4)
    out, scores = attention(q.to("xla"), k.to("xla"), w.to("xla").tanh(), 0.3)
    result = (out * 2).sum() + scores.sum()
    ((operands, _),) = composites(xm.get_stablehlo([result]))
    assert len(operands.split(", ")) == 4  # q, k, the weights, and the number
    want, weights = attention(q, k, w.tanh(), 0.3)
    torch.testing.assert_close(result.cpu(), (want * 2).sum() + weights.sum())


def test_numbers_stay_arguments_and_steps_are_not_compiled_again() -> None:
    def step(x: torch.Tensor, by: float) -> torch.Tensor:
        builder = StableHLOCompositeBuilder("test.scaled")
        return builder.mark_outputs(builder.mark_inputs(x) * by)  # type: ignore[no-any-return]

    x = torch.ones(7).to("xla")
    assert step(x, 3.25).sum().item() == 22.75
    met.clear_all()
    assert step(x, 4.5).sum().item() == 31.5
    assert met.metric_data("CompileTime") is None


def test_nested_and_one_after_the_other() -> None:
    def outer(x: torch.Tensor) -> torch.Tensor:
        builder = StableHLOCompositeBuilder("test.outer")
        return builder.mark_outputs(gelu(builder.mark_inputs(x) + 1) * 3)  # type: ignore[no-any-return]

    x = torch.randn(6)
    y = outer(outer(x.to("xla"))) + gelu(x.to("xla"))
    text = xm.get_stablehlo([y])
    assert sorted(name for _, name in composites(text)) == ["test.gelu", "test.outer", "test.outer"]
    assert text.count('name = "test.gelu"') == 2  # one in the function of test.outer, which both share
    torch.testing.assert_close(y.cpu(), outer(outer(x)) + gelu(x))


def test_what_is_used_outside_too() -> None:
    builder = StableHLOCompositeBuilder("test.half")
    x = torch.randn(3)
    h = builder.mark_inputs(x.to("xla")).exp()
    y = builder.mark_outputs(h * 2)
    torch.testing.assert_close((y + h).cpu(), x.exp() * 3)
    torch.testing.assert_close(h.cpu(), x.exp())


def test_random_numbers_inside() -> None:
    torch.manual_seed(0)
    builder = StableHLOCompositeBuilder("test.dropout")
    y = builder.mark_outputs(F.dropout(builder.mark_inputs(torch.ones(100).to("xla"))))
    torch.manual_seed(0)
    assert y.tolist() == F.dropout(torch.ones(100).to("xla")).tolist()


def test_gradients_pass() -> None:
    x = torch.randn(5)
    a, b = x.clone().requires_grad_(), x.to("xla").requires_grad_()
    gelu(a).sum().backward()
    gelu(b).sum().backward()
    torch.testing.assert_close(b.grad.cpu(), a.grad)


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return gelu(self.linear(x)) * 2


def test_it_is_exported() -> None:
    model, x = Model().eval(), torch.randn(2, 4)
    program = stablehlo.exported_program_to_stablehlo(torch.export.export(model, (x,)))
    assert [name for _, name in composites(program.get_stablehlo_text())] == ["test.gelu"]
    torch.testing.assert_close(program(x.to("xla")).cpu(), model(x))


def test_a_bundle_without_torch(tmp_path: object) -> None:
    import torch_go_xla_runtime

    model, x = Model().eval(), torch.randn(2, 4)
    stablehlo.save_as_stablehlo(torch.export.export(model, (x,)), f"{tmp_path}/bundle")
    got = torch_go_xla_runtime.load(f"{tmp_path}/bundle")(x.numpy())
    torch.testing.assert_close(torch.as_tensor(got), model(x).detach())


def test_a_step_that_is_replayed() -> None:
    model, x = Model(), torch.randn(2, 4)
    want = model(x)
    step = torch_go_xla.compile(model.to("xla"))
    for _ in range(4):
        torch.testing.assert_close(step(x.to("xla")).cpu(), want)


def test_compiled_by_torch() -> None:
    model, x = Model(), torch.randn(2, 4)
    want = model(x)
    compiled = torch.compile(model.to("xla"), backend="openxla")
    torch.testing.assert_close(compiled(x.to("xla")).cpu(), want)


def test_only_one_of_the_results_is_read() -> None:
    builder = StableHLOCompositeBuilder("test.topk")
    x = builder.mark_inputs(torch.randn(5).to("xla"))
    values, indices = builder.mark_outputs(*x.topk(2))
    text = xm.get_stablehlo([indices])
    assert [name for _, name in composites(text)] == ["test.topk"]
    assert "(tensor<5xf32>) -> (tensor<2xf32>, tensor<2xi64>)" in text  # a backend finds all results, in order
    assert indices.tolist() == x.cpu().topk(2).indices.tolist()


def test_an_operand_that_is_not_read() -> None:
    builder = StableHLOCompositeBuilder("test.second")
    x, y = builder.mark_inputs(torch.ones(2, device="xla"), torch.full((3,), 2.0, device="xla"))
    out = builder.mark_outputs(y + 1)
    ((operands, _),) = composites(xm.get_stablehlo([out]))
    assert len(operands.split(", ")) == 2
    assert out.tolist() == [3, 3, 3]


def test_the_same_program_in_each_step() -> None:
    """Whatever else was recorded before: nothing is compiled again."""
    x = torch.ones(9).to("xla")
    gelu(x).sum().item()
    met.clear_all()
    dead = x + 1
    del dead
    gelu(x).sum().item()
    assert met.metric_data("CompileTime") is None


@pytest.mark.parametrize(
    "value", [{}, [1, 2.0], ["a"], float("-inf"), [float("nan")], 2**63, None], ids=lambda v: str(v)
)
def test_bad_attributes(value: object) -> None:
    with pytest.raises(ValueError, match="attribute 'a' of composite test.bad: want"):
        StableHLOCompositeBuilder("test.bad", {"a": value})  # type: ignore[dict-item]


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="an attribute of composite test.bad has an empty name"):
        StableHLOCompositeBuilder("test.bad", {"": 1})
    builder = StableHLOCompositeBuilder("test.bad")
    with pytest.raises(TypeError, match="want tensors, got int"):
        builder.mark_inputs(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="want one tensor at least"):
        builder.mark_inputs()
    with pytest.raises(RuntimeError, match="mark_inputs comes before mark_outputs"):
        builder.mark_outputs(torch.ones(2))
