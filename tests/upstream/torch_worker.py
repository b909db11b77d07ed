"""Runs tests of one of torch's own files on the device ``xla``, and writes down what happens as it happens.

    python torch_worker.py FILE JOURNAL PARENT < TESTS

Without tests on standard input it lists those of the file in the journal. Otherwise the journal has a line before and
after each test, so that whoever reads it knows which test a crash or a hang belongs to. ``torch_tests.py`` starts it,
and its process is PARENT: the worker ends with it.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import signal
import sys
import time
import traceback
import unittest
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from itertools import groupby
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from torch import _prims_common as prims
from torch.testing._internal import common_utils

# Read by common_device_type when it is imported: what torch's own devices must do, this one must do too.
common_utils.NATIVE_DEVICES = (*common_utils.NATIVE_DEVICES, "xla")
from torch.testing._internal import common_device_type as devices  # noqa: E402
from torch.testing._internal import common_methods_invocations as methods  # noqa: E402

import torch_go_xla  # noqa: F401, E402

ACCELERATORS = {"cuda", "xpu", "mps", "privateuse1"}


class XLATestBase(devices.DeviceTypeTestBase):
    """torch's tests on the device ``xla``."""

    device_type = "xla"

    @classmethod
    def get_primary_device(cls) -> str:
        """Return the device of tests that use one, with its index as results have it."""
        return "xla:0"


def _same(test: Any) -> Any:
    return test


def _with_xla(instantiate: Callable[..., None]) -> Callable[..., None]:
    """Return torch's function, which makes the tests of the CPU, and of xla wherever those of an accelerator."""

    def both(cls: type, scope: dict[str, Any], except_for: Any = None, only_for: Any = None, **_options: Any) -> None:
        chosen = {only_for} if isinstance(only_for, str) else set(only_for or ())
        if chosen & ACCELERATORS:
            only_for = ("cpu", "xla")
        if except_for is not None and not isinstance(except_for, str):
            except_for = [device for device in except_for if device != "xla"]
        instantiate(cls, scope, except_for=except_for, only_for=only_for)

    return both


# What an older torch had, and its tests import.
_OLD: dict[ModuleType, dict[str, Any]] = {
    common_utils: {"skipIfMps": _same},
    methods: {
        "binary_ufuncs_and_refs": list(methods.binary_ufuncs),  # the references are torch's, not ours
        "foreach_lerp_op_db": [],
        "xfail": devices.xfail,
        "skip": devices.skip,
        "skipOps": devices.skipOps,
    },
    prims: {"_torch_dtype_to_nvfuser_dtype_map": {}},
}


class _Older(SourceFileLoader):
    """Reads a file of an older torch, in which ``super`` of an instantiated class is the class itself."""

    def get_code(self, fullname: str) -> CodeType:
        """Compile what the file says, with the class that says it."""
        said = self.get_data(self.path).replace(b"super(self.__class__, self)", b"super()")
        return self.source_to_code(said, self.path)


def load(file: Path) -> ModuleType:
    """Import a file of tests with the device ``xla`` among torch's."""
    for module, names_of_old in _OLD.items():
        for name, value in names_of_old.items():
            if not hasattr(module, name):
                setattr(module, name, value)
    devices.device_type_test_bases[:] = [devices.CPUTestBase, XLATestBase]
    # torch_xla's failures, which torch keeps in its tests, are not ours.
    devices.skipXLA = devices.expectedFailureXLA = _same
    devices.skipXLAIf = lambda *_a: _same
    devices.instantiate_device_type_tests = _with_xla(devices.instantiate_device_type_tests)
    spec = importlib.util.spec_from_file_location(file.stem, file, loader=_Older(file.stem, str(file)))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


def names(module: ModuleType) -> list[str]:
    """Return the tests of the device ``xla``, ``Class.method``."""
    return sorted(
        f"{cls.__name__}.{name}"
        for cls in vars(module).values()
        if isinstance(cls, type) and issubclass(cls, XLATestBase) and cls is not XLATestBase
        for name in dir(cls)
        if name.startswith("test") and callable(getattr(cls, name))
    )


class Journal(unittest.TestResult):
    """Writes a line of JSON before and after each test."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.file = path.open("a")
        self.outcome = ("passed", "")
        self.began = 0.0

    def write(self, **entry: Any) -> None:
        """Append a line, which is on the disk before the next test runs."""
        self.file.write(json.dumps(entry) + "\n")
        self.file.flush()

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        self.write(start=_name(test))
        self.outcome = ("passed", "")
        self.began = time.monotonic()
        super().startTest(test)

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        super().stopTest(test)
        outcome, why = self.outcome
        self.write(end=_name(test), outcome=outcome, why=why, seconds=round(time.monotonic() - self.began, 2))

    def _failed(self, error: Any) -> None:
        if self.outcome[0] != "failed":
            self.outcome = ("failed", "".join(traceback.format_exception(*error))[-6000:])

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802
        if _name(test):
            self._failed(err)
        else:  # the class or the module could not be set up
            self.write(broken=str(test), why="".join(traceback.format_exception(*err))[-6000:])

    def addFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        self._failed(err)

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
        if err is not None:
            self._failed(err)

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802
        self.outcome = ("skipped", reason)

    def addUnexpectedSuccess(self, test: Any) -> None:  # noqa: N802
        self.outcome = ("failed", "torch marks it as an expected failure, and it succeeds")


def _name(test: Any) -> str:
    method = getattr(test, "_testMethodName", "")
    return f"{type(test).__name__}.{method}" if method else ""


def die_with_parent(parent: int) -> None:
    """Have the kernel end this process when the one that started it ends, however that happens."""
    # prctl(PR_SET_PDEATHSIG, SIGKILL); the parent may be gone by then.
    if ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL):
        raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() != parent:
        sys.exit("the process that started this one is gone")


def main() -> None:
    """List the tests of a file, or run those that standard input names."""
    die_with_parent(int(sys.argv[3]))
    file, journal = Path(sys.argv[1]), Journal(Path(sys.argv[2]))
    wanted = sys.stdin.read().split()
    sys.argv = [str(file)]
    common_utils.parse_cmd_line_args()
    module = load(file)
    if not wanted:
        journal.write(tests=names(module))
        return
    suite = unittest.TestSuite()
    for cls, group in groupby(wanted, key=lambda name: name.partition(".")[0]):
        if (kind := getattr(module, cls, None)) is not None:
            suite.addTests(kind(name) for _, _, name in (n.partition(".") for n in group) if hasattr(kind, name))
    suite.run(journal)
    journal.write(done=True)


if __name__ == "__main__":
    main()
