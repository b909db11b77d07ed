"""What torch makes of programs: torch.func, checkpoints, custom ops, compiled training steps of models."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import checkpoint

import torch_go_xla
import torch_go_xla.debug.metrics as met

pytestmark = pytest.mark.longer


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3))


def energy(x: torch.Tensor) -> torch.Tensor:
    return (x.sin() * x.cumsum(0)).sum() + (x @ x).exp().reciprocal()


TRANSFORMS = {
    "grad": grad(energy),
    "grad of grad": grad(lambda x: grad(energy)(x).square().sum()),
    "vmap": vmap(lambda x: torch.softmax(x, 0) @ x),
    "vmap of grad": vmap(grad(energy)),
    "jvp": lambda x: jvp(energy, (x,), (x * 2,)),
    "vjp": lambda x: vjp(lambda x: x.sin() * x.sum(), x)[1](x),
    "jacrev": jacrev(lambda x: x.sin() * x.sum()),
    "jacfwd": jacfwd(lambda x: x.sin() * x.sum()),
    "hessian": hessian(energy),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_functional_transforms(name):
    torch.manual_seed(0)
    f = TRANSFORMS[name]
    x = torch.randn((5, 3) if name.startswith("vmap") else 3)
    met.clear_all()
    got = pytree.tree_map(lambda t: t.cpu(), f(x.to("xla")))
    torch.testing.assert_close(got, f(x), rtol=1e-4, atol=1e-5)
    assert met.executed_fallback_ops() == []


def test_gradients_of_each_sample():
    m = model()

    def loss(parameters, x, y):
        return F.cross_entropy(functional_call(m, parameters, (x.unsqueeze(0),)), y.unsqueeze(0))

    x, y = torch.randn(6, 4), torch.randint(0, 3, (6,))
    parameters = {n: p.detach() for n, p in m.named_parameters()}
    each = vmap(grad(loss), (None, 0, 0))
    there = {n: p.to("xla") for n, p in parameters.items()}
    got = each(there, x.to("xla"), y.to("xla"))
    want = each(parameters, x, y)
    torch.testing.assert_close({n: g.cpu() for n, g in got.items()}, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_compute_again(reentrant):
    gradients = []
    for device in ("cpu", "xla"):
        m = model().to(device)
        x = torch.linspace(-1, 1, 24).view(6, 4).to(device).requires_grad_()
        checkpoint(m, x, use_reentrant=reentrant).square().sum().backward()
        gradients.append([t.grad.cpu() for t in (x, *m.parameters())])
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-5)


def test_checkpoints_draw_the_same_numbers_again():
    torch_go_xla.manual_seed(3)
    x = torch.ones(1000, device="xla", requires_grad=True)
    y = checkpoint(lambda x: F.dropout(x * 2, 0.5), x, use_reentrant=False)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


@torch.library.custom_op("tgx_test::scaled_sin", mutates_args=())
def scaled_sin(x: torch.Tensor, scale: float) -> torch.Tensor:
    return x.sin() * scale


@scaled_sin.register_fake
def _(x, scale):
    return torch.empty_like(x)


scaled_sin.register_autograd(
    lambda ctx, g: (g * ctx.saved_tensors[0].cos() * ctx.scale, None),
    setup_context=lambda ctx, inputs, output: (ctx.save_for_backward(inputs[0]), setattr(ctx, "scale", inputs[1])),
)


@torch.library.custom_op("tgx_test::add_one_", mutates_args=("x",))
def add_one_(x: torch.Tensor) -> None:
    x.add_(1)


def test_custom_ops():
    x = torch.randn(5)
    there = x.to("xla").requires_grad_()
    scaled_sin(there, 3.0).sum().backward()
    torch.testing.assert_close(there.grad.cpu(), x.cos() * 3)

    @torch.compile(backend="openxla", fullgraph=True)
    def f(x, buffer):
        add_one_(buffer)
        return scaled_sin(x, 2.0) + buffer

    for n in range(1, 4):
        if n == 1:
            buffer = torch.zeros(5, device="xla")
        torch.testing.assert_close(f(x.to("xla"), buffer).cpu(), x.sin() * 2 + n)
        assert buffer.tolist() == [n] * 5


def test_a_compiled_model_trains_without_being_recorded():
    results, m = [], model()
    for compiled in (False, True):
        there = copy.deepcopy(m).to("xla" if compiled else "cpu")
        device = next(there.parameters()).device
        f = torch.compile(there, backend="openxla", dynamic=False) if compiled else there
        optimizer = torch.optim.AdamW(there.parameters(), lr=1e-2, eps=1e-4)
        torch.manual_seed(1)
        for step in range(6):
            x, y = torch.randn(8, 4), torch.randint(0, 3, (8,))
            loss = F.cross_entropy(f(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if compiled:
                torch_go_xla.sync(wait=True)
                if step == 2:
                    met.clear_all()
        results.append([loss.detach().cpu(), *(p.detach().cpu() for p in there.parameters())])
    assert not met.counter_value("UncachedCompile") and met.counter_value("Replays") == 6
    assert met.executed_fallback_ops() == []
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)


def test_a_compiled_function_writes_to_views_and_twins_of_its_inputs():
    def f(x, row, y):
        row.mul_(2)
        y[1:].copy_(x[:-1])
        return x.t(), y + row.sum(), x[0]

    g = torch.compile(f, backend="openxla", dynamic=False)
    here = torch.arange(9.0).view(3, 3)
    there = here.to("xla")
    y, z = torch.zeros(3, 3), torch.zeros(3, 3, device="xla")
    for _ in range(3):
        want, got = f(here, here[1], y), g(there, there[1], z)
        torch.testing.assert_close([t.cpu() for t in (*got, there, z)], [*want, here, y])
        assert got[0].untyped_storage().data_ptr() == there.untyped_storage().data_ptr()


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("mask", ["none", "future", "padding"])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_fused_inference_of_transformers(norm_first, mask, mode):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=norm_first, activation="gelu")
    m = nn.TransformerEncoder(layer, 2, enable_nested_tensor=not norm_first).eval()
    x = torch.randn(3, 5, 16)
    future = nn.Transformer.generate_square_subsequent_mask(5).isinf() if mask == "future" else None
    padding = torch.arange(5) >= torch.tensor([[5], [3], [2]]) if mask == "padding" else None
    results = []
    met.clear_all()
    with mode():
        for device in ("cpu", "xla"):
            options = {"mask": future, "src_key_padding_mask": padding}
            there = copy.deepcopy(m).to(device)
            given = {k: v if v is None else v.to(device) for k, v in options.items()}
            results.append(there(x.to(device), **given).cpu())
            if padding is not None:
                results[-1][padding] = 0  # torch's nested tensors have nothing there
            attention = there.layers[0].self_attn
            results[-1] = results[-1], [t.cpu() for t in attention(*[x.to(device)] * 3)]
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)
    assert met.executed_fallback_ops() == []
