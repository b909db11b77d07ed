"""Files of all kinds with the same tensor in the folder of the first argument."""

import sys

import torch
from safetensors.torch import load_file

import torch_go_xla.core.xla_model as xm
import torch_go_xla.utils.safetensors as xst
import torch_go_xla.utils.serialization as xser
from torch_go_xla.experimental.distributed_checkpoint import CheckpointManager

folder = sys.argv[1]
x = torch.arange(3 << 20, device="xla")
manager = CheckpointManager(folder + "/steps", 1, chkpt_on_preemption=False)


def save_files(name):
    xm.save({"x": x}, f"{folder}/{name}.pt")
    xser.save({"x": x}, f"{folder}/{name}.xser")
    xst.save_file({"x": x}, f"{folder}/{name}.safetensors")


def save_all(name):
    save_files(name)
    manager.save(int(name), {"x": x})
    manager.save_async(int(name) + 1, {"x": x})


def check_files(name):
    want = torch.arange(3 << 20)
    assert torch.equal(torch.load(f"{folder}/{name}.pt")["x"], want)
    assert torch.equal(xser.load(f"{folder}/{name}.xser")["x"], want)
    assert torch.equal(load_file(f"{folder}/{name}.safetensors")["x"], want)


def check_steps(name):
    want = torch.arange(3 << 20)
    for step in (int(name), int(name) + 1):
        state = {"x": torch.zeros_like(want)}
        manager.restore(step, state)
        assert torch.equal(state["x"], want)
