"""A process that uses SPMD says so to those that it spawns."""

import os
import subprocess
import sys

import torch_go_xla.runtime as xr

assert "XLA_USE_SPMD" not in os.environ and not xr.is_spmd()
xr.use_spmd()
assert os.environ["XLA_USE_SPMD"] == "1"
child = "import torch_go_xla.runtime as xr; print(xr.is_spmd())"
print(subprocess.run([sys.executable, "-c", child], check=True, capture_output=True, text=True).stdout)
