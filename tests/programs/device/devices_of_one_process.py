"""Devices of one process: run by test_device.py."""

import torch

import torch_go_xla

assert torch.xla.device_count() == torch.accelerator.device_count() == 4
x = torch.arange(4.0).to("xla:3")
y = x.to("xla:1")
assert y.device.index == 1 and y.tolist() == [0, 1, 2, 3]
z = torch.empty(2, device="xla:2")
z.copy_(x[::2])
assert z.tolist() == [0, 2]
w = torch.zeros(2, 2, device="xla:2")
w[:, 1].copy_(x[1:3])
assert w.tolist() == [[0, 1], [0, 2]]
assert torch.zeros_like(x, device="xla:1").device.index == 1
assert torch.zeros_like(x, device="cpu").device.type == "cpu"
with torch.xla.device(2):
    assert torch.ones(1, device="xla").device.index == 2 and torch.xla.current_device() == 2
    assert torch.ones(1).xla().device.index == 2
assert torch.ones(1, device="xla").device.index == 0
p = torch.ones(2, device="xla:3", requires_grad=True)
(p * 2).sum().backward()
assert p.grad.device.index == 3 and p.grad.tolist() == [2, 2]
try:
    x + y
except RuntimeError as e:
    assert "xla:3 and xla:1" in str(e), e
else:
    raise AssertionError
try:
    torch.xla.set_device(7)
except RuntimeError as e:
    assert "invalid device ordinal" in str(e)
else:
    raise AssertionError
torch.xla.synchronize("xla:3")
print("done")
