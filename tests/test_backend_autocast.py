"""Autocast on the device, against the op lists of torch's CUDA autocast."""

import pytest
import torch

from torch_go_xla._backend import autocast
from torch_go_xla._backend.autocast import REFUSED

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
