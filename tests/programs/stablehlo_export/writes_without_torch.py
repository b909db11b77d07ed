"""Runs a bundle that writes to a buffer and to inputs, in a process without torch."""

import sys

sys.modules["torch"] = None
import numpy as np

import torch_go_xla_runtime

model = torch_go_xla_runtime.load(sys.argv[1])
x, state, count = np.float32([1, 2]), np.float32([3, 4]), np.zeros((), np.int64)
out = [model(x * k, state, count) for k in (1, 2)]
assert [o.tolist() for o in out] == [[7, 12], [14, 40]], out
assert state.tolist() == [7, 10] and count == 2, (state, count)
try:
    model(x, state.tolist(), count)
except ValueError as error:
    assert "input 1: the program writes to it" in str(error)
else:
    raise AssertionError("a list cannot be written to")
