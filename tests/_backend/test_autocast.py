"""Autocast on the device, against the op lists of torch's CUDA autocast."""

import copy

import pytest
import torch

import torch_go_xla.debug.metrics as met
from torch_go_xla._backend import autocast
from torch_go_xla._backend.autocast import REFUSED
from torch_go_xla.amp import GradScaler, syncfree

BF16, F16, F32, F64 = torch.bfloat16, torch.float16, torch.float32, torch.float64


def ones(*shape, dtype=F32):
    return torch.ones(*shape, dtype=dtype, device="xla")


@pytest.mark.parametrize("dtype", [BF16, F16])
def test_matrix_products_run_in_the_lower_precision(dtype):
    with torch.autocast("xla", dtype=dtype):
        for y in (
            ones(2, 2) @ ones(2, 2),
            torch.nn.functional.linear(ones(1, 2), ones(3, 2), ones(3)),
            torch.nn.functional.conv2d(ones(1, 1, 3, 3), ones(1, 1, 2, 2)),
            torch.baddbmm(ones(1, 2, 2), ones(1, 2, 2), ones(1, 2, 2)),
            torch.einsum("ij,jk->ik", ones(2, 2), ones(2, 2)),
        ):
            assert y.dtype == dtype


def test_others_run_in_float32():
    x = ones(2, 2, dtype=BF16)
    with torch.autocast("xla", dtype=BF16):
        for y in (
            x.exp(),
            x.pow(2),
            torch.nn.functional.layer_norm(x, (2,)),
            torch.nn.functional.mse_loss(x, x),
            x.rsqrt(),
        ):
            assert y.dtype == F32
        for y in (x.sum(), x.softmax(-1), x.cumsum(0), x.prod(), x.norm(), x.norm(2, 0)):
            assert y.dtype == F32
        assert x.softmax(-1, dtype=F64).dtype == F64 and x.sum(0, dtype=BF16).dtype == BF16


def test_the_widest_type_of_the_arguments():
    with torch.autocast("xla", dtype=BF16):
        assert torch.atan2(ones(2, dtype=BF16), ones(2)).dtype == F32
        assert torch.addcmul(ones(2, dtype=BF16), ones(2, dtype=BF16), ones(2, dtype=BF16)).dtype == BF16


def test_what_autocast_leaves_alone():
    with torch.autocast("xla", dtype=BF16):
        assert (ones(2, 2, dtype=F64) @ ones(2, 2, dtype=F64)).dtype == F64
        assert (ones(2) + 1).dtype == F32 and ones(2, dtype=torch.int32).sum().dtype == torch.int64
        with torch.autocast("xla", enabled=False):
            assert (ones(2, 2) @ ones(2, 2)).dtype == F32
    assert (ones(2, 2) @ ones(2, 2)).dtype == F32


def test_binary_cross_entropy_is_refused():
    with torch.autocast("xla", dtype=BF16), pytest.raises(RuntimeError, match="unsafe to autocast"):
        torch.nn.functional.binary_cross_entropy(ones(2), ones(2))


def test_gradients_come_back_in_the_type_of_the_parameter():
    w = ones(2, 2).requires_grad_()
    with torch.autocast("xla", dtype=BF16):
        loss = (ones(1, 2) @ w).float().sum()
    loss.backward()
    assert w.grad.dtype == F32 and w.grad.tolist() == [[1, 1], [1, 1]]


def test_every_listed_op_has_a_kernel_of_cudas():
    """The lists name the overloads that torch registers for CUDA, all of them and no others."""
    theirs = {n.removeprefix("aten::") for n in torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCUDA")}
    ours = set(autocast.kernels())
    own = {"cat", "stack", "index_copy", REFUSED}  # CUDA's kernels promote; ours do so without autocast
    assert ours - theirs <= own
    assert {n for n in theirs - ours if "cudnn" not in n} <= own


def test_grad_scaler():
    scaler = torch.amp.GradScaler("xla", init_scale=4.0, growth_interval=1)
    p = ones(2).requires_grad_()
    optimizer = torch.optim.SGD([p], lr=1.0)
    scaler.scale((p * 2).sum()).backward()
    assert p.grad.tolist() == [8, 8]
    scaler.step(optimizer)
    scaler.update()
    assert p.tolist() == [-1, -1] and scaler.get_scale() == 8.0
    optimizer.zero_grad()
    scaler.scale((p * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert p.tolist() == [-1, -1] and scaler.get_scale() == 4.0


@pytest.mark.parametrize("optimizer", [syncfree.SGD, syncfree.Adam, syncfree.AdamW])
def test_a_scaled_step_reads_no_value(optimizer):
    """torch_xla's names, against torch on the CPU; a step whose gradients are not finite is skipped."""
    results = []
    for device in ("cpu", "xla"):
        torch.manual_seed(0)
        weight = torch.randn(3, 3).to(device).requires_grad_()
        stepped = optimizer([weight], lr=0.1)
        scaler = {"cpu": torch.amp.GradScaler, "xla": GradScaler}[device](device, 4.0, growth_interval=3)
        met.clear_all()
        for scale in (1.0, 2.0, float("inf"), 1.0, 1.0, 1.0, 1.0):
            scaler.scale((weight * scale).square().sum()).backward()
            scaler.step(stepped)
            scaler.update()
            stepped.zero_grad()
        assert met.executed_fallback_ops() == [] and met.metric_data("TransferFromDeviceTime") is None
        results.append([weight.detach().cpu(), torch.tensor(scaler.get_scale())])
    torch.testing.assert_close(results[1], results[0])


def test_a_grad_scaler_is_the_cpus_and_stays_on_the_device():
    """Infinities in one of the gradients, growth, and growth that would not be finite."""
    met.clear_all()
    seen = []
    for device in ("cpu", "xla"):
        scaler = torch.amp.GradScaler(device, init_scale=2.0**70, growth_factor=2.0**40, growth_interval=2)
        params = [torch.full((n,), 2.0**-60, device=device, requires_grad=True) for n in (3, 4)]
        optimizer = torch.optim.SGD(params, lr=1e-3)
        for i, bad in enumerate([0, 0, 1, 0, 0, 0, 0]):
            before = met.counter_value("UncachedCompile")
            optimizer.zero_grad()
            loss = sum(p.square().sum() for p in params)
            scaler.scale(loss * (float("inf") if bad else 1.0)).backward()
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
            seen.append((scaler.get_scale(), scaler._get_growth_tracker(), [p.tolist() for p in params]))
            assert i < 5 or met.counter_value("UncachedCompile") == before
    assert seen[: len(seen) // 2] == seen[len(seen) // 2 :]
    assert met.executed_fallback_ops() == []


@pytest.mark.longer
@pytest.mark.parametrize("dtype", [BF16, F16])
def test_a_model_trains_as_with_the_cpus_autocast(dtype):
    """The ops that both lists lower are the model's: linear layers and attention, with float32 in between."""
    torch.manual_seed(0)
    model = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    x, y = torch.randn(4, 5, 16), torch.randn(4, 5, 16)
    losses = []
    for device in ("cpu", "xla"):
        there = copy.deepcopy(model).to(device)
        optimizer = torch.optim.SGD(there.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler(device, init_scale=2.0**8, enabled=dtype is F16)
        seen = []
        for _ in range(3):
            with torch.autocast(device, dtype=dtype):
                loss = torch.nn.functional.mse_loss(there(x.to(device)).float(), y.to(device))
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(there.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            seen.append(loss.detach().cpu())
        assert all(p.dtype == p.grad.dtype == F32 for p in there.parameters())
        losses.append(torch.stack(seen))
    torch.testing.assert_close(losses[1], losses[0], rtol=2e-2, atol=0)
    assert losses[1][-1] < losses[1][0]


@pytest.mark.parametrize(
    "dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]
)
def test_8_bit_floats_are_stored_cast_and_multiplied(dtype):
    torch.manual_seed(0)
    x = torch.cat([torch.randn(61) * 8, torch.tensor([0.0, -0.0, 1e-9])]).view(8, 8)
    here, there = x.to(dtype), x.to("xla").to(dtype)
    assert there.dtype == dtype and there.element_size() == 1
    assert torch.equal(there.cpu().view(torch.uint8), here.view(torch.uint8))
    assert torch.equal(here.to("xla").float().cpu(), here.float())
    for wider in (F32, BF16, F16):
        assert torch.equal(there.to(wider).cpu(), here.to(wider))
    assert torch.equal(there.t()[1:3].contiguous().cpu().float(), here.t()[1:3].contiguous().float())
    if dtype is torch.float8_e4m3fn:  # which torch multiplies on the CPU
        a, b = (torch.randn(16, 16).to(dtype) for _ in range(2))
        one = torch.tensor(0.5)
        want = torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=F32)
        there = torch._scaled_mm(
            a.to("xla"), b.to("xla").t(), scale_a=one.to("xla"), scale_b=one.to("xla"), out_dtype=F32
        )
        torch.testing.assert_close(there.cpu(), want)
