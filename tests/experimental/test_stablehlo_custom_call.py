"""Values that wait in the host's memory: the CPU device has one memory, so others' programs are looked at."""

from __future__ import annotations

import re

import pytest
import torch

import torch_go_xla
from torch_go_xla import aot
from torch_go_xla.experimental.stablehlo_custom_call import place_to_device, place_to_host


def step(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    kept = place_to_host((x @ weight).tanh())
    return place_to_device(kept) + 1


def test_values_and_gradients() -> None:
    x, weight = torch.randn(4, 3), torch.randn(3, 5)
    there = [t.to("xla").requires_grad_() for t in (x, weight)]
    here = [t.requires_grad_() for t in (x, weight)]
    y = step(*there)
    want = (here[0] @ here[1]).tanh() + 1
    torch.testing.assert_close(y.cpu(), want)
    y.square().sum().backward()
    want.square().sum().backward()
    for a, b in zip(there, here, strict=True):
        torch.testing.assert_close(a.grad.cpu(), b.grad)


@pytest.mark.parametrize(
    ("platform", "placed"), [("TPU", ["pinned_host", "device"]), ("CUDA", ["pinned_host", "device"]), ("CPU", [])]
)
def test_program_of_a_platform(platform: str, placed: list[str]) -> None:
    x, weight = torch.randn(4, 3).to("xla"), torch.randn(3, 5).to("xla")
    text = aot._lower(step, (x, weight), {}, platform).as_text()
    calls = [line for line in text.splitlines() if "annotate_device_placement" in line]
    assert [re.findall(r'_xla_buffer_placement = "(\w+)"', line) for line in calls] == [[p] for p in placed]
    assert all("has_side_effect = true" in line for line in calls)


def test_a_program_for_here_runs() -> None:
    x, weight = torch.randn(4, 3).to("xla"), torch.randn(3, 5).to("xla")
    compiled = aot.compile(step, (x, weight), aot.topology("cpu"))
    assert compiled.analysis()["custom_calls"].get("annotate_device_placement", 0) == 0


def test_traced_by_torch_compile() -> None:
    x, weight = torch.randn(4, 3), torch.randn(3, 5)
    made = torch.compile(step, backend="openxla")(x.to("xla"), weight.to("xla"))
    torch.testing.assert_close(made.cpu(), (x @ weight).tanh() + 1)


def test_bad_arguments() -> None:
    with pytest.raises(RuntimeError, match="place_to_host: expected an xla tensor, got one on cpu"):
        place_to_host(torch.ones(2))


def test_transformed_functions() -> None:
    x, weight = torch.randn(6, 4, 3), torch.randn(3, 5)

    def total(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return step(x, weight).square().sum()

    there = torch.func.vmap(torch.func.grad(total), (0, None))(x.to("xla"), weight.to("xla"))
    kept = (x @ weight).tanh()
    torch.testing.assert_close(there.cpu(), (2 * (kept + 1) * (1 - kept**2)) @ weight.t())


def test_a_lowered_step_is_for_any_platform() -> None:
    x, weight = torch.randn(4, 3).to("xla"), torch.randn(3, 5).to("xla")
    lowered = aot.lower(step, x, weight)
    assert lowered.as_text().count("annotate_device_placement") == 2
    with pytest.raises(torch_go_xla.CompileError, match=r"places values in memories: use aot.compile"):
        lowered.compile(aot.topology("cpu"))
