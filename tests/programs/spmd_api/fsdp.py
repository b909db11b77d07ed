"""Fsdp: run by test_spmd_training.py."""

import functools

import torch
from raises import raises
from start import mesh, spec_of
from torch import nn

import torch_go_xla
import torch_go_xla.distributed.spmd as xs
from torch_go_xla.distributed.fsdp import checkpoint_module
from torch_go_xla.distributed.fsdp.wrap import size_based_auto_wrap_policy, transformer_auto_wrap_policy
from torch_go_xla.experimental.spmd_fully_sharded_data_parallel import SpmdFullyShardedDataParallel as FSDPv2


class Block(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.up, self.down = nn.Linear(n, 4 * n), nn.Linear(4 * n, n)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


def model():
    torch.manual_seed(3)
    return nn.Sequential(Block(16), Block(16), nn.Linear(16, 1))


def train(m, place):
    optimizer = torch.optim.AdamW(m.parameters(), lr=1e-2)
    torch.manual_seed(4)
    losses = []
    for _ in range(10):
        x = place(torch.randn(16, 16))
        optimizer.zero_grad()
        loss = m(x).square().mean()
        loss.backward()
        optimizer.step()
        torch_go_xla.sync()
        losses.append(loss.detach().cpu())
    return torch.stack(losses)


raises(ValueError, "No mesh is provided", FSDPv2, model())
raises(ValueError, "must have an axis named 'fsdp'", FSDPv2, model(), mesh=mesh)
mesh = xs.Mesh(range(8), (8, 1), ("fsdp", "tensor"))
raises(ValueError, "The provided ddp axis is not in the mesh", FSDPv2, model(), mesh=mesh, extra_data_axis="ddp")
raises(RuntimeError, "must define a `forward`", FSDPv2, nn.ModuleList([nn.Linear(2, 2)]), mesh=mesh)
xs.set_global_mesh(mesh)
plain = model()
want = train(plain, lambda x: x)
policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={Block})
for options in ({}, {"auto_wrapper_callable": lambda m, **k: FSDPv2(checkpoint_module(m), **k)}):
    m = FSDPv2(model(), auto_wrap_policy=policy, **options)
    assert isinstance(m[0], FSDPv2) and type(m[2]) is nn.Linear and m.module[1].up.weight.device.type == "xla"
    raises(RuntimeError, "already wrapped", FSDPv2, m)
    assert spec_of(m[0].up.weight) == "{devices=[8,1]0,1,2,3,4,5,6,7}"
    assert spec_of(m[0].down.weight) == "{devices=[1,8]0,1,2,3,4,5,6,7}"

    def place(x):
        x = x.to("xla")
        xs.mark_sharding(x, mesh, ("fsdp", None))
        return x

    got = train(m, place)
    assert torch.allclose(got, want, rtol=1e-4), (got, want)
    for a, b in zip(m.parameters(), plain.parameters()):
        assert torch.allclose(a.detach().cpu(), b.detach(), rtol=1e-4, atol=1e-5)
        assert spec_of(a), "training leaves the parameters sharded"
sizes = functools.partial(size_based_auto_wrap_policy, min_num_params=2000)
m = FSDPv2(model(), auto_wrap_policy=sizes)
assert isinstance(m[1], FSDPv2) and not isinstance(m[1].up, FSDPv2)
raises(RuntimeError, "output type is not supported", FSDPv2(nn.Identity()), "text")
