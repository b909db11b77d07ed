"""Trains with dropout until all is compiled; prints how each step ran, and a digest of losses and weights."""

import hashlib

import torch
import torch.nn.functional as F

import torch_go_xla
from torch_go_xla.debug import metrics

COUNTERS = "InterpretedGraphs", "UncachedCompile"


def counts():
    return [metrics.counter_value(name) or 0 for name in COUNTERS]


torch.manual_seed(0)
weight = torch.nn.Parameter(torch.randn(1024, device="xla"))
data = torch.randn(4096, 1024, device="xla")
torch_go_xla.sync(wait=True)
losses, tiers = [], []
while len(tiers) < 100 and (len(tiers) < 8 or "ops" in tiers[-4:]):  # until the graphs of both sizes are compiled
    before = counts()
    x = data[: 4096 - 512 * (len(tiers) % 2)]
    loss = F.dropout((x * weight).tanh().relu().abs().neg(), 0.2).mean()
    (gradient,) = torch.autograd.grad(loss, weight)
    with torch.no_grad():
        weight -= 0.1 * gradient
    torch_go_xla.sync(wait=True)
    losses.append(loss.detach())
    interpreted, compiled = (now - then for now, then in zip(counts(), before, strict=True))
    tiers.append("ops" if interpreted else "compile" if compiled else "run")
bits = hashlib.sha256()
for value in (*losses, weight):
    bits.update(value.detach().cpu().numpy().tobytes())
print(*tiers, bits.hexdigest())
