"""What fails on the device says which op it was, and the Python line that recorded it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import null_device
import processes
import pytest

# The step fails as a whole, then in parts, until there are three of one result each.
ATTEMPTS = 5

FAULTS = {
    "compile": ("Client_Compile:1:INTERNAL:no such thing", "CompileError"),
    "execute": ("LoadedExecutable_Execute:1:INTERNAL:no such thing", "XlaError"),
    "computation": ("LoadedExecutable_Execute@event:1:INTERNAL:no such thing", "XlaError"),
    "memory": ("LoadedExecutable_Execute:1:RESOURCE_EXHAUSTED:no such thing", "OutOfMemoryError"),
}


@pytest.fixture(scope="module")
def null_plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return null_device.build(tmp_path_factory.mktemp("nullplugin"))


@pytest.mark.longer
@pytest.mark.parametrize("fault", FAULTS)
def test_the_line_that_recorded_a_value(fault: str, null_plugin: Path) -> None:
    armed, cls = FAULTS[fault]
    script = processes.PROGRAMS / "location/train.py"
    lines = {text.partition("  # ")[2]: n for n, text in enumerate(script.read_text().splitlines(), 1)}
    attempts = 1 if fault == "computation" else ATTEMPTS
    command = processes.command("location/train.py", null_plugin, armed, str(attempts))
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True)
    deep, shallow, in_place, after, unharmed = done.stdout.splitlines()
    # What is known to have failed is the cause of what would have read it. Once it is on its way, the plugin tells.
    reader = ("aten::mul.Tensor", "what reads it") if fault == "computation" else ("aten::add.Tensor", "the layer")
    for text, op, place in (
        (deep, "aten::add.Tensor", "the layer"),
        (shallow, "aten::mul.Tensor", "the function"),
        (in_place, "aten::add.Tensor", "in place"),
        (after, *reader),
    ):
        assert text.startswith(cls) and "no such thing" in text, text
        assert text.endswith(f"recorded by {op} at {script}:{lines[place]}"), text
        assert text.count("recorded by") == 1, text
    assert unharmed == "[1.0, 1.0]"
