"""For each path on stdin, fork a process that saves one version after the other; see the test."""

import os
import sys

import torch

WARM = int(sys.argv[1])
for line in sys.stdin:
    if os.fork():
        os.wait()
        print("gone", flush=True)
        continue
    import torch_go_xla
    import torch_go_xla.core.xla_model as xm

    weights = {f"w{i}": torch.zeros(1000 * (i + 1), device="xla") for i in range(20)}
    weights["alias"] = weights["w3"][100:]
    version = 0
    while True:
        version += 1
        for w in list(weights.values())[:20]:
            w.add_(1)
        xm.save({"version": version, "weights": weights}, line.strip())
        if version == WARM:
            print(os.getpid(), flush=True)
