"""Program: run by test_fully_sharded.py."""

import copy
import functools

import torch

import torch_go_xla.runtime as xr
from torch_go_xla.distributed.fsdp import XlaFullyShardedDataParallel as FSDP
from torch_go_xla.distributed.fsdp.wrap import size_based_auto_wrap_policy

torch.manual_seed(0)
want = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
model = FSDP(copy.deepcopy(want), auto_wrap_policy=functools.partial(size_based_auto_wrap_policy, min_num_params=100))
assert sorted(model.state_dict()) == sorted(want.state_dict())
ours, theirs = torch.optim.SGD(model.parameters(), lr=0.1), torch.optim.SGD(want.parameters(), lr=0.1)
x = torch.randn(4 * xr.world_size(), 8)
mine = x.chunk(xr.world_size())[xr.global_ordinal()].to("xla")
for _ in range(3):
    ours.zero_grad()
    theirs.zero_grad()
    model(mine).square().mean().backward()
    want(x).square().mean().backward()
    norm = model.clip_grad_norm_(0.5)
    wanted = torch.nn.utils.clip_grad_norm_(want.parameters(), 0.5)
    norm = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
    assert abs(norm.item() - wanted.item()) < 1e-4, (norm, wanted)
    ours.step()
    theirs.step()
for name, value in model.state_dict().items():
    whole = value.full_tensor() if hasattr(value, "full_tensor") else value
    torch.testing.assert_close(whole.cpu(), want.state_dict()[name], rtol=1e-4, atol=1e-5)
