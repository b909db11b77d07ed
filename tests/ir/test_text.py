"""The text of a graph is all of it: it is read again as it was, and run again with the same results.

A file in regressions/ is a graph that once came out wrong, in that form; each is compared with torch on the CPU. To add
one, dump it by ``_XLAC._get_xla_tensors_text`` or XLA_SAVE_TENSORS_FILE and cut it down.
"""

from __future__ import annotations

from pathlib import Path

import graph_reference
import pytest
import torch

import torch_go_xla
from torch_go_xla import _XLAC
from torch_go_xla.debug import replay

REGRESSIONS = sorted((Path(__file__).parents[1] / "regressions").glob("*.ir"))


@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda p: p.stem)
def test_regression(path: Path) -> None:
    graphs = replay.graphs(path.read_text())
    assert graphs
    for graph in graphs:
        for seed in range(3):
            inputs = replay.random_inputs(graph, seed)
            results = replay.run(graph, inputs)
            for got, expected in zip(results, graph_reference.run(graph, inputs), strict=True):
                torch.testing.assert_close(got.cpu(), expected, equal_nan=True)


def test_regressions_are_there() -> None:
    assert len(REGRESSIONS) >= 3


def model() -> list[torch.Tensor]:
    """Return pending tensors of one graph: a training step, views, lists, random numbers, many types."""
    torch.manual_seed(3)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 3, 3),
        torch.nn.BatchNorm2d(3),
        torch.nn.Dropout(0.3),
        torch.nn.Flatten(),
        torch.nn.Linear(108, 5),
    ).to("xla")
    x = torch.randn(2, 1, 8, 8).to("xla")
    torch_go_xla.sync()
    y = net(x)
    values, places = y.topk(2)
    y.square().sum().backward()
    z = torch.zeros(4, 4, device="xla")
    z[1:3, ::2] = y.detach()[:2, :2] * 0.3
    wide = [torch.ones(3, dtype=dtype, device="xla") for dtype in replay.TYPES.values() if not dtype.is_floating_point]
    return [
        values, places, z, *(p.grad for p in net.parameters()), *(x * 1 for x in wide),
        torch.cat([z, z[:1]]), z + torch.tensor(7.5), torch.rand(3, device="xla"), (z + 1).view(torch.int32) & 3,
        torch.nn.functional.interpolate(x, scale_factor=1.5), torch.quantile(z, torch.tensor([0.5]).to("xla")),
        torch.full((2,), 1 - 2j, device="xla"), z.new_full((2,), float("nan")), x.double().to(torch.float8_e5m2),
    ]  # fmt: skip


def test_the_text_is_read_as_it_was_written() -> None:
    text = _XLAC._get_xla_tensors_text(model())
    again = replay.run(text)
    assert _XLAC._get_xla_tensors_text(again) == text
    torch_go_xla.sync(wait=True)


def test_a_replay_draws_the_numbers_that_were_drawn() -> None:
    torch_go_xla.manual_seed(11)
    drawn = torch.rand(5, device="xla") * torch.randn(5, device="xla")
    text = _XLAC._get_xla_tensors_text([drawn])
    torch_go_xla.manual_seed(12)
    (again,) = replay.run(text)
    assert torch.equal(again.cpu(), drawn.cpu())


ADD = (
    "%1 = xla::data : f32[2]\n%2 = xla::scalar 1 : i64[]\n%3 = aten::add.Tensor %1, %1, %2 : f32[2]\nreturn %3 : f32[2]"
)

BAD = {
    "no return": ("%1 = xla::data : f32[2]", "no return"),
    "an unknown op": ("%1 = aten::nothing : f32[2]\nreturn", "line 1: no op named aten::nothing"),
    "an unknown value": ("\nreturn %9 : f32[]", "line 2: %9 is not defined"),
    "a shape that the rule does not give": (ADD.replace("[2]\nreturn %3 : f32[2]", "[3]\nreturn %3 : f32[3]"),
                                            r"add.Tensor.* gives f32\[2\], the graph says f32\[3\]"),
    "another shape behind return": (ADD[:-2] + "3]", r"line 4: %3 is f32\[2\], not f32\[3\]"),
    "an argument that is none": (ADD.replace("%2 :", "%2 {beta=1} :"), "no argument named beta"),
    "a missing operand": (ADD.replace("%1, %1, %2", "%1"), "argument other is missing"),
    "a value twice": (ADD.replace("%2 =", "%1 ="), "line 2: %1 is defined twice"),
    "a shape that is none": (ADD.replace("data : f32[2]", "data : f33[2]"), "bad shape"),
    "text behind it": (ADD + "\n%4 = xla::data : f32[]", "line 5: text behind"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_text(name: str) -> None:
    text, words = BAD[name]
    with pytest.raises((ValueError, RuntimeError, TypeError), match=words):
        replay.run(text)
    assert replay.run(ADD, [torch.ones(2)])[0].tolist() == [2, 2]


def test_storages_of_another_size() -> None:
    with pytest.raises(ValueError, match=r"reads a f32\[2\], the storage has 12 bytes"):
        replay.run(ADD, [torch.ones(3)])
    with pytest.raises(ValueError, match="reads 1 buffers"):
        replay.run(ADD, [])


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "two.ir"
    file.write_text(f"# run 1\n{ADD}\n\n# run 2\n{ADD}\n")
    replay.main([str(file), "--seed", "5"])
    out = capsys.readouterr().out
    assert out.count("tensor([") == 2 and f"{file}, graph 2" in out
