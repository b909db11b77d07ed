"""From many threads: run by test_torchcpu.py."""

import threading

import torch
import torch.nn.functional as F

import torch_go_xla

x, w = torch.randn(4, 16, 32, 32), torch.randn(16, 16, 3, 3)
want = F.conv2d(x, w)


def work(device):
    a, b = x.to(device), w.to(device)
    for _ in range(20):
        assert torch.equal(F.conv2d(a, b).cpu(), want)
    done.append(device)


done = []
threads = [threading.Thread(target=work, args=(f"xla:{i % 2}",)) for i in range(4)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(len(done))
