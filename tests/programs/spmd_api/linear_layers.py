"""Linear layers: run by test_spmd_training.py."""

import copy

import torch
from raises import raises
from start import mesh
from torch import nn

import torch_go_xla.distributed.spmd as xs

torch.manual_seed(0)
for sizes in ((5,), (3, 5), (2, 3, 5), (2, 3, 4, 5)):
    for bias in (True, False):
        plain = nn.Linear(5, 6, bias=bias)
        ours = xs.apply_xla_patch_to_nn_linear(nn.Sequential(copy.deepcopy(plain))).to("xla")
        assert isinstance(ours[0], xs.EinsumLinear)
        value = torch.randn(sizes)
        x, y = value.to("xla").requires_grad_(), value.clone().requires_grad_()
        ours(x).square().sum().backward()
        plain(y).square().sum().backward()
        for a, b in [(x, y), *zip(ours.parameters(), plain.parameters())]:
            assert torch.allclose(a.grad.cpu(), b.grad, rtol=1e-5, atol=1e-5)
layer = xs.EinsumLinear(8, 8).to("xla")
with torch.autocast("xla", dtype=torch.bfloat16):
    out = layer(torch.randn(2, 4, 8, device="xla"))
    assert out.dtype == torch.bfloat16
out.sum().backward()
assert layer.weight.grad.dtype == torch.float32
# Batch and sequence sharded over different axes: the product needs no communication.
from torch_go_xla import debug

x = torch.randn(4, 8, 8).to("xla")
xs.mark_sharding(x, mesh, ("data", "model", None))
assert debug.collectives(lambda: layer(x).detach()) == []
dot = torch.ops.torch_go_xla.tensordot
raises(RuntimeError, "need to match", dot, x, torch.ones(7, 2, device="xla"), [-1], [0])
raises(RuntimeError, "same length", dot, x, x, [0, 1], [0])
raises(IndexError, "out of range", dot, x, x, [3], [0])
raises(RuntimeError, "one type", dot, x, torch.ones(8, 2, device="xla").long(), [-1], [0])
