"""Load what four processes saved on three, of which one dies in the midst of a step."""

import os

import torch
from raises import raises
from start import r
from torch.distributed.checkpoint import load
from train import checkpoint, equal, model, sharded, train

import torch_go_xla.core.xla_model as xm

want = train(model(), slice(0, 8)).state_dict()
m = sharded()
state = m.state_dict()
load(state, checkpoint_id=checkpoint)
m.load_state_dict(state)
equal(m.state_dict(), want)
print("loaded", flush=True)
if r == 1:
    os.kill(os.getpid(), 9)
raises(RuntimeError, "process ", lambda: train(m, slice(0, 8))[0].weight.to_local().tolist())
raises(RuntimeError, "process ", lambda: xm.all_reduce("sum", torch.ones(2, device="xla")).tolist())
raises(RuntimeError, "process 1 has gone", xm.rendezvous, "after")
print((torch.ones(2, device="xla") + 1).tolist(), flush=True)
