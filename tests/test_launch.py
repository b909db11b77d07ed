"""A function of a notebook cannot be sent to other processes: the error says what to do."""

from __future__ import annotations

import functools
import os
import sys
import types

import pytest

from torch_go_xla import _launch
from torch_go_xla.distributed import xla_multiprocessing as xmp


def train(index: int) -> int:
    return index


@pytest.mark.parametrize("wrap", [lambda f: f, functools.partial])
def test_a_function_of_a_notebook(wrap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))  # has no file
    monkeypatch.setattr(train, "__module__", "__main__")
    with pytest.raises(RuntimeError, match=r"cannot import 'train', which is defined in a notebook.*`import train`"):
        xmp.spawn(wrap(train), nprocs=2)
    assert xmp.spawn(wrap(train), nprocs=1) == 0, "a single process is this one"


def test_a_function_of_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    script = types.ModuleType("__main__")
    script.__file__ = "train.py"
    monkeypatch.setitem(sys.modules, "__main__", script)
    _launch._check_importable(train)
    monkeypatch.setattr(train, "__module__", "__main__")
    _launch._check_importable(train)


def test_a_process_alone_is_a_job_of_one_wherever_its_master_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.9")
    with _launch._alone():
        assert (os.environ["RANK"], os.environ["WORLD_SIZE"], os.environ["MASTER_ADDR"]) == ("0", "1", "127.0.0.9")
    assert os.environ["MASTER_ADDR"] == "127.0.0.9" and "RANK" not in os.environ and "MASTER_PORT" not in os.environ
    monkeypatch.setenv("WORLD_SIZE", "2")
    with _launch._alone():
        assert "RANK" not in os.environ
