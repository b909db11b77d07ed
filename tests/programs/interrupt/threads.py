"""Threads: run by test_interrupt.py."""

import threading

import torch

import torch_go_xla

x = torch.arange(64.0, device="xla").reshape(8, 8) / 512
failures = []


def work(number):
    try:
        for k in range(1, 6):
            y = x
            for _ in range(3 + k):
                y = torch.sin(y @ x) / (k + number)
            torch_go_xla.sync()
            y += k
            z = torch.arange(64.0).reshape(8, 8) / 512
            c = z
            for _ in range(3 + k):
                c = torch.sin(c @ z) / (k + number)
            torch.testing.assert_close(y.cpu(), c + k)
    except BaseException as e:
        failures.append(repr(e)[-300:])


threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(failures)
