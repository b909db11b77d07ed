"""Every public name and signature of torch_xla 2.9.0 is here, or in the table of absences with a reason."""

from __future__ import annotations

import importlib
import inspect
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import pytest

from torch_go_xla import _absent, as_torch_xla

TABLE = pathlib.Path(__file__).parent / "surface" / "torch_xla-2.9.0.txt"
LINE = re.compile(r"  ([\w.]+)(\(.*\))?(?: class| property)?$")


def names() -> Iterator[tuple[str, str, str | None]]:
    """Yield module, name and parameters."""
    module = ""
    for line in TABLE.read_text().splitlines():
        if line.endswith(":"):
            module = line[:-1]
            yield module, "", None
        elif match := LINE.match(line):
            yield module, match[1], match[2]
        else:
            raise AssertionError(f"not a line of the table: {line}")


def find(module: str, name: str) -> Any:
    """Return what a name of torch_xla is here; None if it is absent."""
    ours = "torch_go_xla" + module.removeprefix("torch_xla") if module != "torch_xla.torch_xla" else "torch_go_xla"
    try:
        found: Any = importlib.import_module(ours)
    except ModuleNotFoundError:
        return None
    for part in filter(None, name.split(".")):
        found = getattr(found, part, None)
    return found


def parameters(text: str) -> list[str]:
    """Return the names of the parameters of a signature, but not of those that take the rest."""
    signature = inspect.signature(eval("lambda " + text[1:-1].replace("=...", "=None") + ": 0"))
    rest = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in signature.parameters.values() if p.kind not in rest]


def test_every_name_is_here_or_has_its_reason() -> None:
    missing, needless = [], []
    for module, name, _ in names():
        full = f"{module}.{name}".rstrip(".")
        why = _absent.reason(full) or _absent.reason(module)
        if find(module, name) is None:
            if why is None:
                missing.append(full)
        elif why is not None and _absent._TABLE.get(full) and not full.endswith("__init__"):
            needless.append(full)
    assert not missing and not needless


def test_every_parameter_is_here() -> None:
    wrong = []
    for module, name, text in names():
        found = find(module, name)
        if text is None or not inspect.isfunction(found) or _absent.reason(f"{module}.{name}"):
            continue
        ours = inspect.signature(found).parameters
        rest = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in ours.values())
        if not rest and (absent := [p for p in parameters(text) if p not in ours]):
            wrong.append(f"{module}.{name}: {absent}")
    assert not wrong


def test_an_absent_module_says_what_to_use(ok: Any) -> None:
    assert as_torch_xla.VERSION.startswith("2.9.0")
    ok("absent/an_absent_module_says_what_to_use.py")


@pytest.mark.parametrize("name", ["send", "CoalescingBuckets"])
def test_an_absent_name_says_what_to_use(name: str) -> None:
    import torch_go_xla.core.xla_model as xm

    with pytest.raises(AttributeError, match="collective"):
        getattr(xm, name)
