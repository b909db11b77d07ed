"""Lets a script, and the processes that it spawns, find this package under the name torch_xla."""

import as_torch_xla

from torch_go_xla.core import xla_model

as_torch_xla.pytest_configure()
xla_model.xla_device_hw = lambda device: "TPU"  # what a script does only on a TPU is not skipped
