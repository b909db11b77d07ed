"""Op in a forked child: run by test_bad_input.py."""

import os

import torch

import torch_go_xla

x = torch.ones(3, device="xla") + 1
x.tolist()
r, w = os.pipe()
pid = os.fork()
if pid == 0:
    try:
        (x + 1).tolist()
        text = "no error"
    except RuntimeError as e:
        text = f"{type(e).__name__}: {e}"
    os.write(w, text.encode())
    os._exit(0)
os.close(w)
os.waitpid(pid, 0)
print(os.read(r, 4096).decode())
print((x + 1).tolist())
