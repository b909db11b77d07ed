"""Recovery: run by test_plugins.py."""

import os

import torch

import torch_go_xla

for library in ("/nowhere/libpjrt.so", torch.__file__, os.environ["LIBRARY"]):
    os.environ["PJRT_LIBRARY_PATH"] = library
    try:
        x = torch.ones(2).to("xla")
        print((x + x).tolist())
    except RuntimeError as e:
        print(type(e).__name__, library in str(e))
