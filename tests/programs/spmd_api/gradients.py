"""Gradients: run by test_spmd_api.py."""

import copy

import torch
from start import mesh, spec_of
from torch import nn

import torch_go_xla.distributed.spmd as xs

w0, x0 = torch.randn(8, 8), torch.randn(4, 8)
want = w0.clone().requires_grad_()
(x0 @ want).square().sum().backward()
w = w0.to("xla").requires_grad_()
y = xs.mark_sharding(w, mesh, ("data", "model"))
(x0.to("xla") @ y).square().sum().backward()
assert type(w.grad) is torch.Tensor and torch.allclose(w.grad.cpu(), want.grad, rtol=1e-5, atol=1e-5)
v = w0.to("xla").requires_grad_()
z = xs.mark_sharding_with_gradients(v, mesh, (("model", "data"), None))
(x0.to("xla") @ z).square().sum().backward()
assert spec_of(v) == "" and spec_of(z) == spec_of(v.grad) == "{devices=[8,1]0,4,1,5,2,6,3,7}"
assert torch.allclose(v.grad.cpu(), want.grad, rtol=1e-5, atol=1e-5)
leaf = xs.XLAShardedTensor(w0.to("xla"), requires_grad=True)
(leaf * 2).sum().backward()
assert leaf.is_leaf and leaf.grad.cpu().tolist() == [[2.0] * 8] * 8
p = nn.Parameter(xs.mark_sharding(w0.to("xla"), mesh, ("data", None)))
optimizer = torch.optim.SGD([p], lr=0.5)
p.sum().backward()
optimizer.step()
assert torch.allclose(p.detach().cpu(), w0 - 0.5) and p.partition_spec == ("data", None)
assert isinstance(copy.deepcopy(p), nn.Parameter) and torch.equal(copy.deepcopy(p).cpu(), p.cpu())
