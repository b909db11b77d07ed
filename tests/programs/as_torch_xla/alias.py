"""Alias: run by test_as_torch_xla.py."""

import importlib.metadata
import importlib.util

from torch_go_xla import as_torch_xla

assert importlib.util.find_spec("torch_xla") is None
as_torch_xla.install()
as_torch_xla.install()
assert importlib.util.find_spec("torch_xla") and importlib.util.find_spec("torch_xla.core")
assert importlib.util.find_spec("torch_xla.nothing") is None
import torch_xla
import torch_xla.core.xla_model as xm
from torch_xla.distributed.spmd import Mesh

import torch_go_xla
import torch_go_xla.core.xla_model as ours

assert xm is ours and torch_xla.core is torch_go_xla.core and torch_xla._XLAC is torch_go_xla._XLAC
assert Mesh is torch_go_xla.distributed.spmd.Mesh and torch_xla.device() == torch_go_xla.device()
assert ours.__spec__.name == ours.__name__ == "torch_go_xla.core.xla_model" and "sync" in dir(torch_xla)
assert torch_xla.__version__ == importlib.metadata.version("torch-xla") == as_torch_xla.VERSION
assert torch_xla.__version__.startswith("2.9") and torch_go_xla.__version__ == "0.1.0"
assert importlib.metadata.packages_distributions()["torch_xla"] == ["torch_xla"]
for wrong in ("torch_xla.nothing", "torch_xla_elsewhere"):
    try:
        __import__(wrong)
        raise AssertionError(wrong)
    except ModuleNotFoundError as e:
        assert e.name == wrong
