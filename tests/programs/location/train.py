"""Values that fail on the device, and what their errors say."""

import sys

import null_device
import torch

import torch_go_xla

null = null_device.use(sys.argv[1], devices=2, delay_us=2000)


class Add(torch.nn.Module):
    def forward(self, x):
        return x + x  # the layer


x, y = torch.ones(2).to("xla"), torch.ones(3).to("xla")
torch_go_xla.sync(wait=True)
model = torch.nn.Sequential(torch.nn.Sequential(Add()))
for k in range(1, 1 + int(sys.argv[3])):
    null.arm(sys.argv[2].replace(":1:", f":{k}:"))
deep = model(x)
shallow = torch.mul(y, y)  # the function
y.add_(1)  # in place
torch_go_xla.sync()


def read():
    return (deep * x).tolist()  # what reads it


for value in (deep.tolist, shallow.tolist, y.tolist, read):
    try:
        print(value())
    except torch_go_xla.XlaError as e:
        print(type(e).__name__, "|".join(str(e).splitlines()))
torch_go_xla.sync()
print(x.tolist())
