"""What Go states once and Python has generated: gocore/wire."""

import inspect

import pytest
import torch

from torch_go_xla import _control, _core, _vocabulary
from torch_go_xla._backend import core, errors
from torch_go_xla._go import _goxla


def test_library_of_another_build_is_refused(monkeypatch):
    _core.check_build()
    monkeypatch.setattr(_vocabulary, "HASH", "0" * 16)
    with pytest.raises(ImportError, match="the library and the package are of different builds: .*0000000000000000"):
        _core.NativeCore()


def test_library_without_a_vocabulary_is_refused(monkeypatch):
    monkeypatch.delattr(_goxla, "bindings_Vocabulary")
    with pytest.raises(ImportError, match="of different builds: .* is an older one"):
        _core.check_build()


@pytest.mark.parametrize("dtype", core.SCALAR_TYPE)
def test_numbers_of_types_are_torchs(dtype):
    # A StableIValue carries a type as its c10::ScalarType; torch's own text for it leads back.
    x = torch.empty(3, dtype=dtype, device="xla")
    assert x.dtype is dtype and x.element_size() == torch.empty(0, dtype=dtype).element_size()


def test_every_error_kind_has_its_class():
    # torch.linalg.LinAlgError is the public name of torch._C._LinAlgError
    assert [c.__name__.lstrip("_") for c in errors.BY_KIND] == list(_vocabulary.ERROR_CLASSES)
    assert all(issubclass(c, BaseException) for c in errors.BY_KIND)


def test_every_call_of_the_library_is_a_method():
    methods = vars(_control.Control)
    for name in (n for n in dir(_goxla) if n.startswith("bindings_")):
        assert any(f"self._go.{name}" in inspect.getsource(m) for m in methods.values() if inspect.isfunction(m)), name


def test_waits_are_called_again_until_they_are_over():
    asked = []

    class Slow:
        def bindings_WaitFor(self, device, programs, ms):
            asked.append((device, programs, ms))
            return len(asked) == 3

        def bindings_Exchange(self, tag, value, at, count, ms):
            return '["a", "b"]'

    control = _control.Control(Slow())
    control.wait_for(5, 2)
    assert asked == [(5, 2, _control.SLICE)] * 3
    assert control.exchange("tag", "a", [0, 1]) == ["a", "b"]
