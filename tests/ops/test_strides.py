"""Results lie in memory as torch's do: strides and values, for operands in any order of dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from cpu_reference import Batch, opinfos
from torch.utils import _pytree as pytree

import torch_go_xla

ROWS = "clone relu add where convolution avg_pool2d _native_batch_norm_legit cat".split()


def _reversed(x: torch.Tensor) -> torch.Tensor:
    order = list(reversed(range(x.dim())))
    return x.permute(order).contiguous().permute(order)


def _channels_last(x: torch.Tensor) -> torch.Tensor:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return x.contiguous(memory_format=formats[x.dim()]) if x.dim() in formats else x


def _sliced(x: torch.Tensor) -> torch.Tensor:
    return _reversed(x.repeat_interleave(2, 0))[::2] if x.dim() > 1 else x


def _expanded(x: torch.Tensor) -> torch.Tensor:
    return x.select(-1, 0).unsqueeze(-1).expand_as(x) if x.dim() > 1 and 0 not in x.shape else x


ORDERS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "plain": lambda x: x,
    "reversed": _reversed,
    "channels last": _channels_last,
    "sliced": _sliced,
    "expanded": _expanded,
}

OPS = """
    add mul where clamp lerp addcmul atan2 pow sigmoid gt logical_and isnan clone contiguous to float
    nn.functional.relu nn.functional.gelu nn.functional.silu nn.functional.dropout nn.functional.hardtanh
    nn.functional.conv2d nn.functional.conv_transpose2d nn.functional.max_pool2d nn.functional.avg_pool2d
    nn.functional.adaptive_avg_pool2d nn.functional.batch_norm nn.functional.group_norm nn.functional.pad
    nn.functional.interpolate nn.functional.pixel_shuffle
    cat sum softmax matmul cumsum empty_like zeros_like masked_fill flip roll tril index_select
""".split()


def strides(x: torch.Tensor) -> list[int]:
    """Return the strides that matter: those of dimensions with more than one element."""
    return [s for n, s in zip(x.shape, x.stride(), strict=True) if n > 1 and x.numel()]


def _arranged(op: Callable[..., Any], order: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., Any]:
    """Return the op of operands in another order."""

    def of(*args: Any, **kwargs: Any) -> Any:
        put = pytree.tree_map(lambda x: order(x.detach()) if isinstance(x, torch.Tensor) else x, (args, kwargs))
        return op(*put[0], **put[1])

    return of


@pytest.mark.parametrize("name", OPS)
def test_operands_in_any_order(name: str) -> None:
    batch = Batch()
    for op in opinfos(name):
        samples = [s for s in op.sample_inputs("cpu", torch.float32) if "generator" not in s.kwargs]
        for i, s in enumerate(samples[:: max(1, len(samples) // 5)]):
            for label, order in ORDERS.items():
                if label == "expanded" and "norm" in name:
                    continue  # the deviation of equal elements is rounding only
                arranged = _arranged(op.op, order)
                try:
                    arranged(s.input, *s.args, **s.kwargs)
                except RuntimeError:
                    continue  # torch refuses these operands
                batch.add(f"{name}, sample {i}, {label}", arranged, s.input, *s.args, **s.kwargs)
    found = [(label, strides(got), strides(want)) for label, got, want in batch.pending]
    assert [x for x in found if x[1] != x[2]] == []
    if not name.endswith(("dropout", "empty_like")):  # their values are random, or nothing
        batch.check()


def test_a_computed_view_can_be_viewed() -> None:
    q = torch.randn(2, 3, 4, 5)

    def heads(q: torch.Tensor) -> torch.Tensor:
        return (q.transpose(1, 2) * 0.5).transpose(1, 2).view(2, 3, 20)

    torch.testing.assert_close(heads(q.to("xla")).cpu(), heads(q))


def test_attention_of_heads_that_lie_last() -> None:
    def attend(device: str) -> torch.Tensor:
        q = torch.arange(384.0, device=device).view(2, 6, 4, 8).sin().transpose(1, 2)
        return torch.nn.functional.scaled_dot_product_attention(q, q, q).transpose(1, 2).view(2, 6, 32)

    torch.testing.assert_close(attend("xla").cpu(), attend("cpu"))


def test_channels_last_stays() -> None:
    conv = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2)
    )
    x = torch.randn(2, 3, 12, 12).to(memory_format=torch.channels_last)
    want = conv(x)
    want.sum().backward()
    there = torch.nn.Sequential(*conv).to("xla")
    gradients = {n: p.grad for n, p in conv.named_parameters()}
    for p in there.parameters():
        p.grad = None
    got = there(x.to("xla"))
    got.sum().backward()
    assert got.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-5)
    for n, p in there.named_parameters():
        assert p.grad.stride() == gradients[n].stride(), n


@pytest.mark.parametrize("form", [torch.contiguous_format, torch.preserve_format, torch.channels_last])
def test_memory_formats(form: torch.memory_format) -> None:
    for order in ORDERS.values():
        x = order(torch.randn(2, 3, 4, 5))
        there = order(x.to("xla"))
        assert there.clone(memory_format=form).stride() == x.clone(memory_format=form).stride()
        assert there.to(torch.float64, memory_format=form).stride() == x.to(torch.float64, memory_format=form).stride()
        assert torch.rand_like(there, memory_format=form).stride() == torch.rand_like(x, memory_format=form).stride()
        torch.testing.assert_close(there.clone(memory_format=form).cpu(), x)
    with pytest.raises(RuntimeError, match="required rank 4 tensor to use channels_last format"):
        torch.ones(2, 3, device="xla").clone(memory_format=torch.channels_last)


def test_writes_to_a_result_in_another_order() -> None:
    def written(device: str) -> list[torch.Tensor]:
        x = torch.arange(24.0, device=device).view(2, 3, 4).transpose(0, 2)
        y = x * 2
        part = y[1:3]
        y.add_(1)
        part[:, 0] = -1
        z = y.as_strided((4, 6), (6, 1))
        z[0] = 7
        return [y, part, z, y.transpose(0, 2).reshape(-1)]

    got = written("xla")
    torch_go_xla.sync()
    for g, w in zip(got, written("cpu"), strict=True):
        assert g.stride() == w.stride()
        torch.testing.assert_close(g.cpu(), w)
    got[0].mul_(2)  # after the sync, of a stored value
    assert got[2].sum().item() == 2 * written("cpu")[2].sum().item()


@pytest.mark.parametrize(
    "wrong", [-1, 4, 77, torch.channels_last, torch.channels_last_3d, torch.preserve_format], ids=str
)
@pytest.mark.parametrize("name", ["clone", "to", "contiguous", "empty", "zeros_like", "is_contiguous", "resize_"])
def test_wrong_memory_formats(name: str, wrong: object) -> None:
    """The error is of torch's class, also for numbers that are no format."""
    classes = []
    for device in ("cpu", "xla"):
        x = torch.ones(2, 3, device=device)
        call = {
            "empty": lambda: torch.empty(2, 3, device=x.device, memory_format=wrong),  # noqa: B023
            "to": lambda: x.to(torch.float64, memory_format=wrong),  # noqa: B023
            "resize_": lambda: x.resize_(3, 2, memory_format=wrong),  # noqa: B023
            "zeros_like": lambda: torch.zeros_like(x, memory_format=wrong),  # noqa: B023
        }.get(name, lambda: getattr(x, name)(memory_format=wrong))  # noqa: B023
        try:
            call()
            classes.append("")
        except Exception as e:
            classes.append(type(e).__name__)
    assert classes[0] == classes[1]
