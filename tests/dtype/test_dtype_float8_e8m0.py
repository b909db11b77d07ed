"""torch.float8_e8m0fnu, an exponent of two in a byte: every element, and every cast that torch has on the CPU."""

import math

import pytest
import torch

E8M0 = torch.float8_e8m0fnu
EVERY = torch.arange(256, dtype=torch.uint8)


def bits(x: torch.Tensor) -> list[int]:
    return x.cpu().view(torch.uint8).tolist()


def test_every_element_goes_to_the_device_and_back() -> None:
    here = EVERY.view(E8M0)
    there = here.to("xla")
    assert there.dtype is E8M0 and there.element_size() == 1
    assert bits(there) == bits(there.clone()) == list(range(256))


@pytest.mark.parametrize("wider", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_every_element_is_cast_as_on_the_cpu(wider: torch.dtype) -> None:
    here = EVERY.view(E8M0)
    want, got = here.to(wider), here.to("xla").to(wider).cpu()
    assert torch.equal(got.nan_to_num(7.0), want.nan_to_num(7.0))
    assert torch.equal(got.isnan(), want.isnan())


def test_every_element_is_true_as_on_the_cpu() -> None:
    here = EVERY.view(E8M0)
    assert torch.equal(here.to("xla").bool().cpu(), here.bool())


def test_numbers_are_rounded_as_on_the_cpu() -> None:
    bounds = torch.arange(1, 255, dtype=torch.int32) << 23  # powers of two, and what lies around them and their middles
    words = torch.cat([bounds + d for d in (-1, 0, 1, (1 << 22) - 1, 1 << 22, (1 << 22) + 1)])
    subnormal = torch.tensor([0, 1, 1 << 21, (1 << 22) - 1, 1 << 22, (1 << 22) + 1, (1 << 23) - 1], dtype=torch.int32)
    x = torch.cat([words, subnormal]).view(torch.float32)
    x = torch.cat([x, -x, torch.tensor([math.inf, -math.inf, math.nan])])
    assert bits(x.to("xla").to(E8M0)) == bits(x.to(E8M0))


@pytest.mark.parametrize("source", [torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.uint8, torch.bool])
def test_other_types_are_cast_to_it(source: torch.dtype) -> None:
    x = torch.tensor([0.0, 0.75, 1, 1.5, 3, 5, 6, 100]).to(source)
    assert bits(x.to("xla").to(E8M0)) == bits(x.to(E8M0))


def test_bits_are_read_as_another_type_and_back() -> None:
    there = EVERY.to("xla")
    assert bits(there.view(E8M0)) == list(range(256))
    assert torch.equal((there.view(E8M0).float() * 2).to(E8M0).view(torch.uint8).cpu()[1:200], EVERY[2:201])


def test_factories_and_indices() -> None:
    for make in (lambda d: torch.zeros(3, dtype=E8M0, device=d), lambda d: torch.full((3,), 6.0, dtype=E8M0, device=d)):
        assert bits(make("xla")) == bits(make("cpu"))
    here = EVERY.view(E8M0)
    there = here.to("xla")
    index = torch.tensor([3, 1, 200])
    assert bits(there[index.to("xla")]) == bits(here[index])
    assert bits(torch.cat([there, there[:2]])) == bits(torch.cat([here, here[:2]]))
    assert there[128].item() == here[128].item() == 2.0


def test_products_of_tensors_are_as_on_the_cpu() -> None:
    x, y = EVERY.view(E8M0), EVERY.flip(0).contiguous().view(E8M0)
    assert bits(x.to("xla") * y.to("xla")) == bits(x * y)


@pytest.mark.parametrize("name", ["save", "safetensors"])
def test_it_is_saved_and_loaded(name: str, tmp_path) -> None:
    x = EVERY.view(E8M0).to("xla")
    path = str(tmp_path / "x")
    if name == "save":
        torch.save(x, path)
        loaded = torch.load(path, map_location="xla")
    else:
        from safetensors.torch import load_file

        from torch_go_xla.utils import safetensors

        safetensors.save_file({"x": x}, path)
        loaded = load_file(path, device="xla")["x"]
    assert loaded.dtype is E8M0 and loaded.device.type == "xla" and bits(loaded) == list(range(256))


@pytest.mark.parametrize(
    "op",
    [
        lambda x: x + x,
        lambda x: x.sum(0),
        torch.neg,
        torch.abs,
        torch.exp,
        torch.sum,
        torch.prod,
        lambda x: x > x,
        lambda x: x.view(16, 16) @ x.view(16, 16),
    ],
)
def test_what_torch_cannot_compute_is_its_error(op) -> None:
    here = EVERY.view(E8M0)
    with pytest.raises(NotImplementedError, match="Float8_e8m0fnu"):
        op(here)
    with pytest.raises(NotImplementedError, match="Float8_e8m0fnu"):
        op(here.to("xla")).cpu()
