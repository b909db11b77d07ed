"""Library of another version: run by test_bad_input.py."""

import torch_go_xla

try:
    print(torch_go_xla.real_devices())
except Exception as e:
    print(f"{type(e).__name__}: {e}")
