"""Sharded heads stay where they are: run by test_spmd.py."""

import copy

import torch
from start import COLUMNS, ROWS
from torch import nn

import torch_go_xla.runtime as xr
from torch_go_xla._backend import partitioning

xr.use_spmd()

from collections import Counter

import torch.nn.functional as F

from torch_go_xla import debug


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(72)
        self.q, self.k, self.v, self.out = (nn.Linear(72, 72) for _ in range(4))

    def forward(self, x):
        y = self.norm(x)
        q, k, v = (f(y).view(*x.shape[:2], 8, 9).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).reshape(x.shape))


torch.manual_seed(0)
plain = nn.Sequential(Block(), Block())
model = copy.deepcopy(plain).to("xla")
for block in model:
    for layer in (block.q, block.k, block.v):
        partitioning.annotate_(layer.weight, ROWS), partitioning.annotate_(layer.bias, "{devices=[8]<=[8]}")
    partitioning.annotate_(block.out.weight, COLUMNS)
x = torch.randn(4, 10, 72)
y, kept = x.to("xla"), []
with torch.no_grad():
    found = debug.collectives(lambda: kept.append(partitioning.annotate(model(y), "{replicated}")))
assert Counter(c.kind for c in found) == {"all-reduce": 2}, "one a block, and no head moves"
torch.testing.assert_close(kept[0].cpu(), plain(x).detach(), rtol=1e-5, atol=1e-5)
for m, data in ((model, y), (plain, x)):
    m(data).square().mean().backward()
for a, b in zip(model.parameters(), plain.parameters()):
    torch.testing.assert_close(a.grad.cpu(), b.grad, rtol=1e-4, atol=1e-5)
