"""Save by step, restore into another sharding, and at a preemption."""

import os
import signal
import sys

import torch
from raises import raises
from start import mesh, spec_of

import torch_go_xla.distributed.spmd as xs
from torch_go_xla.experimental.distributed_checkpoint import CheckpointManager, prime_optimizer


def training(spec):
    model = torch.nn.Linear(8, 8).to("xla")
    xs.mark_sharding(model.weight, mesh, spec)
    return model, torch.optim.AdamW(model.parameters())


def state(model, optimizer):
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}


def step(model, optimizer):
    model(torch.ones(4, 8, device="xla")).square().sum().backward()
    optimizer.step()


def values(state):
    tensors = torch.utils._pytree.tree_leaves(state)
    return [t.cpu().clone() if isinstance(t, torch.Tensor) else t for t in tensors]


folder = sys.argv[1]
manager = CheckpointManager(folder, save_interval=2, max_to_keep=2)
run = training(("data", "model"))
want = {}
for number in range(7):
    step(*run)
    saved = (manager.save if number < 4 else manager.save_async)(number, state(*run))
    assert saved == (number % 2 == 0)
    if saved:
        want[number] = values(state(*run))
manager.join()
assert manager.all_steps() == [4, 6] == CheckpointManager(folder, 2).all_steps()
other = training((None, "model"))
prime_optimizer(other[1])
lies = spec_of(other[0].weight)
for number in (4, 6):
    read = state(*other)
    manager.restore(number, read)
    other[1].load_state_dict(read["optimizer"])
    for got, expected in zip(values(state(*other)), want[number], strict=True):
        torch.testing.assert_close(got, expected, rtol=0, atol=0)
    assert spec_of(other[0].weight) == lies
raises(ValueError, "no checkpoint of step 2", manager.restore, 2, state(*run))
raises(ValueError, "save_interval", CheckpointManager, folder, 0)
manager = CheckpointManager(folder, 2)
assert not manager.save(7, state(*run))
os.kill(os.getpid(), signal.SIGTERM)
assert manager.save(9, state(*run)) and manager.reached_preemption(9) and 9 in manager.all_steps()
