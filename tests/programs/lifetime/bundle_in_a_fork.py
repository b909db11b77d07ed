"""Use, and drop, a bundle in a fork, without torch: run by test_lifetime.py."""

import gc
import os
import sys

import numpy as np

import torch_go_xla_runtime

x = np.ones((3, 4), np.float32)
model = torch_go_xla_runtime.load(sys.argv[1])
first = model(x)
assert "torch_go_xla" not in sys.modules
child = os.fork()
if child == 0:
    try:
        model(x)
    except RuntimeError as e:
        print(e, flush=True)
    del model
    gc.collect()
    sys.exit(7)  # by the handlers of atexit
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
np.testing.assert_array_equal(model(x), first)
