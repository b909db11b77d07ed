"""The founding promise: aliases agree after every sync, and saving never reads a stale or donated buffer."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch

import torch_go_xla
import torch_go_xla.core.xla_model as xm

SWITCHES = [
    {"XLA_DISABLE_FUNCTIONALIZATION": f, "XLA_ENABLE_PARAM_ALIASING": p}
    for f, p in itertools.product((None, "0", "1"), repeat=2)
]


def ids(env: dict[str, str | None]) -> str:
    return " ".join(f"{k}={v}" for k, v in env.items() if v is not None) or "default"


@pytest.mark.parametrize("env", SWITCHES, ids=ids)
def test_the_article(ok, env) -> None:
    assert ok("founding/article.py", **env).strip() == "equal"


def test_the_article_without_the_second_sync() -> None:
    t1 = torch.tensor([1], device="xla")
    t2 = t1.detach()
    xm.mark_step()
    t2.add_(t2)
    t1_cpu, t2_cpu = torch_go_xla._XLAC._xla_get_cpu_tensors([t1, t2])
    assert t1_cpu.tolist() == t2_cpu.tolist() == [2]


VIEWS = {
    "detach": lambda t: t.detach(),
    "view": lambda t: t.view(-1),
    "transpose": lambda t: t.t(),
    "select": lambda t: t[1],
    "narrow": lambda t: t[:, 1:3],
    "step": lambda t: t[:, ::2],
    "diagonal": lambda t: t.diagonal(),
    "nested": lambda t: t.t()[1:].view(3, 2, 2)[:, 1],
    "as_strided": lambda t: t.as_strided((2, 2), (5, 2), 1),
    "permuted": lambda t: t.view(2, 2, 4).permute(2, 0, 1),
    "data": lambda t: t.data,
}


@pytest.mark.parametrize("donate", [True, False])
@pytest.mark.parametrize("name", VIEWS)
def test_a_write_through_any_alias_is_seen_by_all(name: str, donate: bool, monkeypatch) -> None:
    """One storage, several views; each is written between syncs, and every one agrees with torch CPU."""
    torch_go_xla._core.core.configure("XLA_ENABLE_PARAM_ALIASING", str(int(donate)))
    try:
        here, there = (torch.arange(16.0, device=d).view(4, 4) for d in ("cpu", "xla"))
        views = [
            [f(t) for f in (VIEWS[name], VIEWS["detach"], VIEWS["select"], VIEWS["transpose"])] for t in (here, there)
        ]
        for step, (a, b) in enumerate(zip(*views, strict=True)):
            for v in (a, b):
                v.add_(1).mul_(step + 2)
            if step % 2:
                torch_go_xla.sync()
            for x, y in zip([here, *views[0]], [there, *views[1]], strict=True):
                assert torch.equal(x, y.cpu()), f"step {step}: {x} is {y.cpu()}"
    finally:
        torch_go_xla._core.core.configure("XLA_ENABLE_PARAM_ALIASING", "1")


def test_a_sync_of_one_alias_materializes_the_others() -> None:
    base = torch.zeros(4, device="xla")
    left, right = base[:2], base[2:]
    other = torch.ones(3, device="xla")
    left.add_(1)
    right.sub_(1)
    pending = other * 2 + base.sum()
    torch_go_xla._XLAC._xla_sync_multi([left])
    assert torch_go_xla._XLAC._describe(base)["state"] == "device"
    assert torch_go_xla._XLAC._describe(pending)["state"] == "pending"
    right.mul_(3)
    assert base.tolist() == [1, 1, -3, -3]
    assert pending.tolist() == [2, 2, 2]


def test_save_keeps_aliases(tmp_path: Path) -> None:
    weight = torch.nn.Parameter(torch.randn(4, 3, device="xla"))
    state = {
        "weight": weight,
        "tied": weight,
        "row": weight.detach()[1],
        "turned": weight.detach().t(),
        "step": 3,
        "name": ["a", None],
    }
    with torch.no_grad():
        weight.detach().t()[0].mul_(2)
    expected = weight.detach().cpu()
    xm.save(state, tmp_path / "a.pt")
    loaded = torch.load(tmp_path / "a.pt", weights_only=True)
    assert torch.equal(loaded["weight"], expected)
    assert loaded["weight"].device.type == "cpu" and isinstance(loaded["weight"], torch.nn.Parameter)
    assert loaded["step"] == 3 and loaded["name"] == ["a", None]
    assert loaded["turned"].stride() == (1, 3)
    with torch.no_grad():
        loaded["weight"].zero_()
    for name in ("tied", "row", "turned"):
        assert not loaded[name].any(), f"{name} does not share the storage of weight in the file"


def test_save_after_donation(tmp_path: Path) -> None:
    """Every step donates the old weights; what is saved is always the new ones."""
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 4).to("xla")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    reference = torch.nn.Linear(4, 4)
    reference.load_state_dict({k: v.cpu() for k, v in model.state_dict().items()})
    expected = torch.optim.SGD(reference.parameters(), lr=0.5, momentum=0.9)
    x = torch.randn(2, 4)
    for step in range(4):
        for m, o, device in ((model, optimizer, "xla"), (reference, expected, "cpu")):
            o.zero_grad()
            m(x.to(device)).square().sum().backward()
            o.step()
        if step % 2:
            xm.mark_step()
        xm.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "a.pt")
        loaded = torch.load(tmp_path / "a.pt", weights_only=True)
        for name, value in reference.state_dict().items():
            torch.testing.assert_close(loaded["model"][name], value)


def test_reading_a_donated_buffer_is_an_error_not_a_crash() -> None:
    x = torch.arange(4.0, device="xla")
    alias = x.detach()
    torch_go_xla._XLAC._set_buffer_donation(x, True)
    assert torch_go_xla._XLAC._get_buffer_donation(x)
    y = x + 1
    torch_go_xla.sync(wait=True)
    assert y.tolist() == [1, 2, 3, 4]
    for read in (x.cpu, x.tolist, lambda: alias[0].item(), lambda: x * 2, lambda: xm.save([x], "/dev/null")):
        with pytest.raises(
            torch_go_xla.DonatedBufferError,
            match=r"f32\[4\] on xla:0\), given away at .*test_founding.py:\d+, was donated to the program of step \d+",
        ):
            read()
    x.fill_(7)
    assert alias.tolist() == [7, 7, 7, 7]
    assert (y * 2).tolist() == [2, 4, 6, 8]


def test_the_error_of_a_donated_value_names_its_line() -> None:
    x = torch.arange(4.0, device="xla")
    y = x.mul(3)
    torch_go_xla._XLAC._set_buffer_donation(y, True)
    z = y + 1
    torch_go_xla.sync(wait=True)
    with pytest.raises(torch_go_xla.DonatedBufferError, match=r"(?s)step \d+.*aten::mul.* at .*test_founding.py:\d+"):
        y.cpu()
    assert z.tolist() == [1, 4, 7, 10]


def test_a_shared_buffer_is_not_donated() -> None:
    x = torch.arange(4.0, device="xla")
    copy = x.clone()
    torch_go_xla.sync()
    for _ in range(3):
        x.add_(1)
        torch_go_xla.sync(wait=True)
    assert copy.tolist() == [0, 1, 2, 3] and x.tolist() == [3, 4, 5, 6]


def test_functional_tensors_are_saved_as_plain_ones(functional: torch.Tensor, tmp_path: Path) -> None:
    torch_go_xla._XLAC._functionalize_sync([functional])
    (value,) = torch_go_xla._XLAC._xla_get_cpu_tensors([functional])
    assert value.tolist() == [5, 0, 0]
    xm.save({"w": functional}, tmp_path / "a.pt")
    assert torch.load(tmp_path / "a.pt", weights_only=True)["w"].tolist() == [5, 0, 0]
