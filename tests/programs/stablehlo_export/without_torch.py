"""Runs the bundle of a folder, the argument, in a process without torch, and keeps what it gives."""

import sys

sys.modules["torch"] = None  # an import raises
import numpy as np

import torch_go_xla_runtime

model = torch_go_xla_runtime.load(sys.argv[1])
x = np.load(sys.argv[1] + "/x.npy")
out = [model(v, scale=np.float32(2)) for v in (x, -x)]
np.savez(sys.argv[1] + "/out.npz", *(o["half"].astype(np.float32) for o in out), *(o["pair"][0] for o in out))
assert [int(o["pair"][1]) for o in out] == [1, 2] and out[0]["three"] == 3 and out[0]["none"] is None
for wrong in ((x[:2],), (x.astype(np.float64),), (), (x, x)):
    try:
        model(*wrong, scale=np.float32(2))
    except ValueError:
        continue
    raise AssertionError(f"accepted {wrong}")
assert not [m for m in sys.modules if m.split(".")[0] == "torch" and sys.modules[m]]
