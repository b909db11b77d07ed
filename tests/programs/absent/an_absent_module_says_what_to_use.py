"""An absent module says what to use: run by test_absent.py."""

from torch_go_xla import as_torch_xla

as_torch_xla.install()
try:
    import torch_xla.core.xla_op_registry
except ModuleNotFoundError as e:
    assert "programs are not built by hand" in str(e), e
else:
    raise AssertionError
