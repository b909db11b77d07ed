"""The precision of matrix products and convolutions is written into the programs."""

from __future__ import annotations

import pytest
import torch

import torch_go_xla
from torch_go_xla import backends as xb
from torch_go_xla._core import core


@pytest.fixture(autouse=True)
def as_before():
    yield
    torch.set_float32_matmul_precision("highest")
    xb.set_mat_mul_precision("default")


def products() -> str:
    """Return the program of a matrix product and a convolution."""
    x, image = torch.ones(2, 2).to("xla"), torch.ones(1, 2, 4, 4).to("xla")
    made = [x @ x, torch.nn.functional.conv2d(image, image[:, :, :2, :2])]
    text = core.dump([core.fast.handle(t) for t in made], "stablehlo")
    assert "stablehlo.dot_general" in text
    torch_go_xla.sync()
    for t in made:
        assert (t.cpu() == 2 if t.dim() == 2 else t.cpu() == 8).all()
    return text


def test_it_is_the_compilers_unless_it_is_set():
    assert xb.get_mat_mul_precision() == "default" and "#stablehlo<precision" not in products()


@pytest.mark.parametrize("name", ["high", "highest"])
def test_it_is_written_into_products(name):
    xb.set_mat_mul_precision(name)
    assert xb.get_mat_mul_precision() == name
    assert f"#stablehlo<precision {name.upper()}>" in products()


@pytest.mark.parametrize("theirs, ours", [("highest", "highest"), ("high", "high"), ("medium", "default")])
def test_it_follows_torch(theirs, ours):
    xb.set_mat_mul_precision("high")
    torch.set_float32_matmul_precision(theirs)
    assert xb.get_mat_mul_precision() == ours and torch.get_float32_matmul_precision() == theirs


def test_another_name_is_an_error():
    with pytest.raises(ValueError, match="default, high, highest"):
        xb.set_mat_mul_precision("low")
    assert xb.get_mat_mul_precision() == "default"
