"""Functions live as long as something in Python, or a recorded op, needs them."""

from __future__ import annotations

import gc

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import torch_go_xla
from torch_go_xla._backend import functions

# More than the core keeps of those that nothing needs.
MANY = 600


def scaled(by: int) -> str:
    return f"""
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{
  %by = stablehlo.constant dense<{by}.0> : tensor<2xf32>
  %0 = stablehlo.multiply %x, %by : tensor<2xf32>
  return %0 : tensor<2xf32>
}}
"""


def define_others() -> None:
    for n in range(1000, 1000 + MANY):
        functions.define(scaled(n))


def test_one_that_is_held_outlives_many_others() -> None:
    x = torch.ones(2, device="xla")
    held = functions.define(scaled(2))
    assert functions.define(scaled(2)) is held
    define_others()
    assert held([x])[0].tolist() == [2, 2]


def test_one_that_no_one_holds_is_dropped() -> None:
    x = torch.ones(2, device="xla")
    name = functions.define(scaled(3)).name
    gc.collect()
    before = len(functions._living)
    define_others()
    assert len(functions._living) <= before
    with pytest.raises(RuntimeError, match="there is no traced function"):
        torch.ops.torch_go_xla.call([x], name)


def test_one_that_a_recorded_op_calls_is_kept() -> None:
    y = functions.define(scaled(4))([torch.ones(2, device="xla")])[0]
    define_others()
    assert y.tolist() == [4, 4]


def test_one_that_a_trace_calls_is_kept() -> None:
    x = torch.ones(2, device="xla")
    traced = make_fx(lambda x: functions.define(scaled(5))([x])[0], tracing_mode="fake")(x)
    define_others()
    assert traced(x).tolist() == [5, 5]


def test_those_of_an_op_are_bounded() -> None:
    """An op that is called with arguments of ever other kinds keeps the latest."""

    def text(x: torch.Tensor, by: float) -> str:
        return scaled(int(by))

    op = torch_go_xla.custom_op("functions_test::scale(Tensor x, float by) -> Tensor", stablehlo=text)
    x = torch.ones(2, device="xla")
    before = len(functions._living)
    for n in range(2000, 2000 + MANY):
        op(x, float(n))
    torch_go_xla.sync()
    gc.collect()
    assert len(functions._living) - before <= 256
    assert op(x, 2000.0).tolist() == [2000, 2000]
