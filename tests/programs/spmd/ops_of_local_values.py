"""Ops of local values: run by test_spmd.py."""

import torch
from local import check, local, part, x
from start import ROWS

import torch_go_xla.runtime as xr
from torch_go_xla._backend import partitioning

xr.use_spmd()

import torch.nn.functional as F

for f in (
    lambda t: t.softmax(-1),
    lambda t: t.sort(-1)[1],
    lambda t: t.topk(2)[0],
    lambda t: t.cumsum(0),
    lambda t: t.argmax(-1),
    lambda t: t[:, torch.tensor([2, 0], device=t.device)],
    lambda t: t.index_put((torch.tensor([1], device=t.device),), torch.tensor(5.0, device=t.device)),
    lambda t: F.layer_norm(t, (4,)),
    lambda t: torch.cat([t, torch.ones(1, 4, device=t.device)]),
    lambda t: torch.where(t > 0, t, 0.0),
    lambda t: F.conv1d(t[None], torch.ones(3, 2, 2, device=t.device)),
    lambda t: F.scaled_dot_product_attention(t[None], t[None], t[None], is_causal=True),
    lambda t: F.cross_entropy(t, torch.tensor([1, 2], device=t.device)),
    lambda t: t.scatter_add(1, torch.tensor([[0, 1], [2, 2]], device=t.device), torch.ones(2, 2, device=t.device)),
    lambda t: F.max_pool1d(t[None], 2),
    lambda t: torch.fft.fft(t).abs(),
    lambda t: t.var(0),
    lambda t: F.gelu(t) + torch.arange(4, device=t.device),
    lambda t: F.embedding(torch.tensor([0, 1, 1], device=t.device), t),
):
    check(f(local), lambda i: f(part[i]), 1e-4)


class Entry(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        return partitioning.full_to_shard(t, ROWS)

    @staticmethod
    def backward(ctx, grad):
        return partitioning.shard_to_full(grad, ROWS, (16, 4))


leaf = x.to("xla").requires_grad_()
(Entry.apply(leaf).exp() * 2).sum().backward()
torch.testing.assert_close(leaf.grad.cpu(), 2 * x.exp())
