"""Adam: run by test_memory.py."""

import time

import torch

import torch_go_xla
import torch_go_xla.core.xla_model as xm

torch.manual_seed(0)
model = torch.nn.Sequential(*(m for _ in range(4) for m in (torch.nn.Linear(768, 768), torch.nn.ReLU()))).to("xla")
optimizer = torch.optim.Adam(model.parameters())
activations = []
for module in model:
    module.register_forward_hook(lambda m, args, out: activations.append(out.nbytes))
x = torch.ones(64, 768).to("xla")
for _ in range(4):
    optimizer.zero_grad()
    activations.clear()
    model(x).square().mean().backward()
    optimizer.step()
    torch_go_xla.sync(wait=True)
    while (memory := xm.get_memory_info("xla:0"))["bytes_used"] > 1.01 * memory["live_bytes"]:
        time.sleep(0.001)  # the plugin's thread releases the step's memory a moment after its results are there
parameters = sum(p.nbytes for p in model.parameters())
states = sum(t.nbytes for s in optimizer.state.values() for t in s.values())
gradients = sum(p.grad.nbytes for p in model.parameters())
print(parameters + states + gradients + sum(activations), memory["peak_bytes_used"])
