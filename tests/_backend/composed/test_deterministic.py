"""torch.use_deterministic_algorithms: alerts, and memory that is filled, as on the CPU."""

from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F

import torch_go_xla  # noqa: F401

ALERTED = {
    "put_": lambda d: torch.zeros(3, device=d).put_(torch.tensor([0], device=d), torch.ones(1, device=d)),
    "put": lambda d: torch.zeros(3, device=d).put(torch.tensor([0], device=d), torch.ones(1, device=d)),
    "max_unpool1d": lambda d: F.max_unpool1d(*unpooled(1, d), 2),
    "max_unpool2d": lambda d: F.max_unpool2d(*unpooled(2, d), 2),
    "max_unpool3d": lambda d: F.max_unpool3d(*unpooled(3, d), 2),
}

EMPTY = {
    "empty": lambda d, t: torch.empty(2, 3, device=d, dtype=t),
    "empty_like": lambda d, t: torch.empty_like(torch.zeros(2, 3, device=d, dtype=t)),
    "empty_strided": lambda d, t: torch.empty_strided((2, 3), (1, 2), device=d, dtype=t),
    "empty_permuted": lambda d, t: torch.empty_permuted((2, 3, 4), (1, 0, 2), device=d, dtype=t),
    "empty of a memory format": lambda d, t: torch.empty(
        1, 2, 2, 2, device=d, dtype=t, memory_format=torch.channels_last
    ),
    "out": lambda d, t: torch.empty(5, out=torch.zeros(1, device=d, dtype=t)),
    "resize_": lambda d, t: torch.zeros(2, device=d, dtype=t).resize_(5),
    "resize_ of a part": lambda d, t: torch.zeros(4, device=d, dtype=t)[1:3].resize_(5),
    "resize_ to less": lambda d, t: torch.zeros(4, device=d, dtype=t).resize_(2),
    "nothing": lambda d, t: torch.empty(0, device=d, dtype=t),
}


def unpooled(n: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    sizes = (1, 1, *[1] * n)
    return torch.ones(sizes, device=device), torch.zeros(sizes, dtype=torch.int64, device=device)


@pytest.fixture(autouse=True)
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("name", ALERTED)
def test_alerts_are_torchs(name):
    with pytest.raises(RuntimeError) as theirs:
        ALERTED[name]("cpu")
    with pytest.raises(RuntimeError) as ours:
        ALERTED[name]("xla")
    assert str(ours.value) == str(theirs.value)
    torch.use_deterministic_algorithms(True, warn_only=True)
    with pytest.warns(UserWarning, match="does not have a deterministic implementation") as said:
        ALERTED[name]("xla")
    assert str(said[0].message).partition(" (Triggered")[0] == str(ours.value).replace(
        "(True)'. You can turn off determinism just for this operation, or you can use the 'warn_only=True' option, "
        "if that's acceptable for your application. You can also file",
        "(True, warn_only=True)'. You can file",
    )


def test_put_that_accumulates_is_deterministic():
    x = torch.zeros(3, device="xla").put_(torch.tensor([0, 0], device="xla"), torch.ones(2, device="xla"), True)
    assert x.tolist() == [2, 0, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int8, torch.uint8, torch.bool, torch.complex64])
@pytest.mark.parametrize("name", EMPTY)
def test_memory_is_filled_as_torch_does(name, dtype):
    ours, theirs = EMPTY[name]("xla", dtype), EMPTY[name]("cpu", dtype)
    assert torch.allclose(*(torch.view_as_real(x.to(torch.complex128)) for x in (ours.cpu(), theirs)), equal_nan=True)
    assert ours.stride() == theirs.stride()


def test_memory_is_not_filled_without_being_asked():
    torch.utils.deterministic.fill_uninitialized_memory = False
    try:
        assert torch.empty(3, device="xla").tolist() == [0, 0, 0]
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = True
