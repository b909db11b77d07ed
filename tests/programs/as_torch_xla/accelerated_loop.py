"""Accelerate: run by test_as_torch_xla.py."""

from torch_go_xla import as_torch_xla

as_torch_xla.install()
import os

import torch
from accelerate import Accelerator

import torch_go_xla.debug.metrics as met

data = torch.utils.data.TensorDataset(torch.randn(24, 4), torch.randn(24, 2))


def made():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    return model, optimizer, torch.utils.data.DataLoader(data, batch_size=4), schedule


model, optimizer, loader, schedule = made()
want = []
for epoch in range(2):
    for i, (x, y) in enumerate(loader):
        loss = torch.nn.functional.mse_loss(model(x), y)
        (loss / 2).backward()
        if i % 2:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        want.append(loss.detach())
want, weights = torch.stack(want), model.state_dict()

accelerator = Accelerator(gradient_accumulation_steps=2)
model, optimizer, loader, schedule = accelerator.prepare(*made())
assert accelerator.device.type == "xla" == next(model.parameters()).device.type


def epoch():
    losses, counts = [], []
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.mse_loss(model(x), y)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        losses.append(accelerator.gather(loss.detach()[None]).cpu())
        counts.append(met.counter_value("UncachedCompile"))
    return torch.cat(losses), counts


first, _ = epoch()
accelerator.save_state(os.environ["FOLDER"])
second, counts = epoch()
torch.testing.assert_close(torch.cat([first, second]), want, rtol=1e-4, atol=1e-5)
trained = {name: value.cpu() for name, value in accelerator.get_state_dict(model).items()}
torch.testing.assert_close(trained, dict(weights), rtol=1e-4, atol=1e-5)
assert counts[2] == counts[-1], counts
epoch()
accelerator.load_state(os.environ["FOLDER"])
again, _ = epoch()
torch.testing.assert_close(again, second, rtol=1e-5, atol=1e-6)
