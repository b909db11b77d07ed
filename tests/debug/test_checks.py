"""`debug.checks`: the op that makes a NaN or an infinity is named, with its line."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import torch_go_xla
from torch_go_xla._core import core
from torch_go_xla.debug.checks import checking

Op = Callable[[torch.Tensor], object]


@pytest.mark.parametrize(
    ("op", "what", "made"),
    [
        (lambda x: x / x, "div.Tensor", r"nan of operands without one, first at \[0, 0\] of its result f32\[2,3\]"),
        (lambda x: (x + 1).log() + (x - 1).log(), "log", r"nan .* first at \[0, 0\]"),
        (lambda x: x.div_(0), "div.Tensor", "nan"),
        (lambda x: 1 / x, "reciprocal", r"inf .* first at \[0, 0\]"),
        (lambda x: torch.full_like(x, 1e30) * 1e30, "mul.Tensor", "inf"),
        (lambda x: (x.double() + 1e300).float(), "copy", "inf"),
        (lambda x: (x.half() + 60000) * 2, "mul.Tensor", r"inf .* f16\[2,3\]"),
        (lambda x: torch.complex(x, x) / 0, "div.Tensor", "nan"),
        (lambda x: torch.aminmax(x[:, :0].sum(1) / 0), "div.Tensor", "nan"),
        (lambda x: F.softmax(x.masked_fill(x == 0, -torch.inf), -1), "_softmax", r"nan of operands without one"),
        (lambda x: x[:0].mean(), "mean", r"nan .* first at \[\] of its result f32\[\]"),
        (lambda x: torch.var_mean(x[0, :1]), "var_mean.correction", "nan"),
        (lambda x: torch._foreach_reciprocal([x + 1, x]), "reciprocal", "inf"),
        (lambda x: x[:, 1].log_(), "log", r"inf .* first at \[0\]"),
        (lambda x: (x.half() + 60000).mul_(x + 2), "mul.Tensor", r"inf .* f16\[2,3\]"),  # finite before it is stored
    ],
)
def test_the_op_is_named(op: Op, what: str, made: str) -> None:
    x = torch.zeros(2, 3).to("xla")
    with pytest.raises(RuntimeError, match=f"^{re.escape(what)} made {made}") as caught, checking("nan", "inf"):
        op(x)
    last = str(caught.value).splitlines()[-1]
    assert re.search(rf"recorded by aten::\w+(\.\w+)? at {re.escape(__file__)}:\d+$", last), last


@pytest.mark.parametrize(
    "op",
    [
        lambda x: torch.full((2, 3), torch.inf, device="xla") - torch.inf * 0,  # what numbers ask for
        lambda x: F.softmax(x.masked_fill(torch.eye(3, device="xla") > 0, -torch.inf), -1),
        lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True),
        lambda x: torch.full_like(x, torch.nan).nan_to_num(),
        lambda x: (x + torch.tensor(torch.nan).to("xla")) * 2,  # from the host
        lambda x: F.max_pool1d(x[None], 2, padding=1),
        lambda x: x.amax(1) - x.logsumexp(1),
        lambda x: x.int() // 2,
        lambda x: torch.empty(0, device="xla").sum(),
    ],
)
def test_what_passes(op: Op) -> None:
    with checking():
        op(torch.rand(3, 3).to("xla"))


def test_only_the_kinds_that_are_asked_for() -> None:
    x = torch.zeros(2, device="xla")
    with checking("nan", "indices"):
        1 / x
    with checking("inf"):
        x / x
    with pytest.raises(RuntimeError, match="made nan"), checking():
        x / x
    with pytest.raises(ValueError, match="want 0, 1 .all., or some of indices, nan, inf"), checking("zeros"):
        pass
    x / x
    torch_go_xla.sync()
    assert core.setting("TORCH_GO_XLA_CHECK") == "0"


def test_the_first_of_several_and_the_rest_stays() -> None:
    x = torch.zeros(3).to("xla")
    with pytest.raises(RuntimeError, match=r"^log made inf"), checking():
        y = x.log()
        z = y - y
    assert y.tolist() == [-torch.inf] * 3 and z.isnan().all()
    torch_go_xla.sync(wait=True)  # it is raised once


def test_a_gradient_is_named_too() -> None:
    x = torch.zeros(2).to("xla").requires_grad_()
    with pytest.raises(RuntimeError, match=r"made inf of operands without one.*\n.*test_checks"), checking():
        x.sqrt().sum().backward()


def test_compiled_functions() -> None:
    @torch_go_xla.compile
    def step(x: torch.Tensor) -> torch.Tensor:
        return (x.log() * 2).sum()

    good, bad = torch.ones(3).to("xla"), torch.tensor([1.0, -1.0, 1.0]).to("xla")
    with checking("nan"):
        for _ in range(4):  # recorded, captured, replayed
            assert step(good).item() == 0
        for _ in range(2):
            with pytest.raises(RuntimeError, match=r"log made nan .* first at \[1\]"):
                step(bad).item()
            assert step(good).item() == 0


def test_a_function_that_was_compiled_before_and_one_that_is_called_after() -> None:
    @torch_go_xla.compile
    def step(x: torch.Tensor) -> torch.Tensor:
        return x.log() * 2

    bad = torch.tensor([-1.0]).to("xla")
    for _ in range(4):
        step(bad)
    torch_go_xla.sync()
    for _ in range(4):
        with pytest.raises(RuntimeError, match="log made nan"), checking("nan"):
            step(bad)
    before = core.live_storages()
    for _ in range(4):
        step(bad)
    torch_go_xla.sync(wait=True)
    assert core.live_storages() <= before + 1
    with checking("nan"):
        pass


def test_spmd(ok: Callable[..., object]) -> None:
    ok("checks/spmd.py", CPU_NUM_DEVICES="4")


def test_a_model_that_trains() -> None:
    """Nothing is raised for a network of several kinds of layers, and its values are those without checks."""

    def train() -> list[float]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
            torch.nn.Flatten(), torch.nn.LayerNorm(36), torch.nn.Dropout(0.1), torch.nn.GELU(), torch.nn.Linear(36, 5),
        ).to("xla")  # fmt: skip
        optimizer = torch.optim.AdamW(model.parameters())
        losses = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(torch.rand(4, 1, 8, 8).to("xla")), torch.tensor([0, 1, 2, 4]).to("xla"))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    plain = train()
    with checking():
        assert train() == pytest.approx(plain, rel=1e-5)
