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
    cat stack sum softmax matmul cumsum empty_like zeros_like masked_fill flip roll tril index_select
""".split()
FACTORIZATIONS = """
    linalg.cholesky linalg.cholesky_ex cholesky_inverse cholesky_solve linalg.inv linalg.qr linalg.svd linalg.eigh
    linalg.lu linalg.lu_factor linalg.lu_solve linalg.solve linalg.solve_triangular linalg.householder_product
    linalg.det linalg.slogdet ormqr triangular_solve geqrf
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


@pytest.mark.parametrize("name", OPS + FACTORIZATIONS)
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
    if name in FACTORIZATIONS:
        return  # test_linalg.py compares their values, up to what is not determined
    if not name.endswith(("dropout", "empty_like")):  # their values are random, or nothing
        batch.check()


def _lying(size: tuple[int, ...], stride: tuple[int, ...], device: str) -> torch.Tensor:
    return torch.empty_strided(size, stride, device=device).fill_(2.0)


WITH_NUMBERS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "mul": lambda x: x * 5,
    "rsub": lambda x: 5 - x,
    "add with alpha": lambda x: x.add(1, alpha=2),
    "true_divide": lambda x: x / 3,
    "floor_divide": lambda x: x // 3,
    "fmod": lambda x: x.fmod(2),
    "gt": lambda x: x > 1,
    "where": lambda x: torch.where(x > 0, x, 0.0),
    "a number of the CPU": lambda x: x * torch.tensor(3.0),
    "clamp": lambda x: x.clamp(0, 1),
    "pow": lambda x: x**2,
    "lerp": lambda x: x.lerp(x, 0.5),
    "neg": lambda x: -x,
}


@pytest.mark.parametrize("name", WITH_NUMBERS)
def test_a_number_is_an_operand(name: str) -> None:
    """What is contiguous in two formats is copied whole by an op of tensors only, and laid out by one with a number."""
    op = WITH_NUMBERS[name]
    for size in ((2, 1, 3, 3), (2, 4, 1, 1), (1, 4, 1, 1), (2, 3, 4, 5)):
        n, c, h, w = size
        lasts = (c * h * w, 1, w * c, c)
        got, want = (op(_lying(size, lasts, device)) for device in ("xla", "cpu"))
        assert got.stride() == want.stride(), size
        torch.testing.assert_close(got.cpu(), want)


@pytest.mark.parametrize("dim", range(-5, 5))
def test_stack_of_channels_last(dim: int) -> None:
    x = torch.arange(120.0).view(2, 3, 4, 5)

    def stacked(x: torch.Tensor) -> torch.Tensor:
        return torch.stack(
            [x.to(memory_format=torch.channels_last), (x + 1).to(memory_format=torch.channels_last)], dim
        )

    got, want = stacked(x.to("xla")), stacked(x)
    assert got.stride() == want.stride()
    torch.testing.assert_close(got.cpu(), want)


def test_positions_lie_by_columns() -> None:
    for of in (torch.nonzero, torch.argwhere, lambda x: x.nonzero(as_tuple=True), lambda x: torch.where(x)):
        got, want = (pytree.tree_leaves(of(torch.ones(3, 4, device=device))) for device in ("xla", "cpu"))
        assert [x.stride() for x in got] == [x.stride() for x in want]
        torch.testing.assert_close([x.cpu() for x in got], want)


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_an_out_argument_takes_the_strides() -> None:
    """An out= argument of another size is laid out as a new result is; one of the size stays as it is."""
    x, square = torch.arange(120.0).view(2, 3, 4, 5).to(memory_format=torch.channels_last), torch.eye(3) * 4
    calls: dict[str, Callable[..., Any]] = {
        "add": lambda x, square, out: torch.add(x, 1, out=out),
        "sigmoid": lambda x, square, out: torch.sigmoid(x, out=out),
        "cat": lambda x, square, out: torch.cat([x, x], 1, out=out),
        "sum": lambda x, square, out: torch.sum(x, 0, out=out),
        "cholesky": lambda x, square, out: torch.linalg.cholesky(square, out=out),
        "mm": lambda x, square, out: torch.mm(square, square, out=out),
    }
    for name, call in calls.items():
        for size in ((0,), (7,), (2, 3, 4, 5), (3, 3)):
            got = call(x.to("xla"), square.to("xla"), torch.empty(size, device="xla"))
            want = call(x, square, torch.empty(size))
            assert got.stride() == want.stride(), (name, size)
            torch.testing.assert_close(got.cpu(), want)


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
