"""The package under the name torch_xla, and libraries that look for that: accelerate, and transformers' Trainer."""

from __future__ import annotations

import pathlib
import subprocess
import sys

ALIAS = """
import importlib.metadata, importlib.util
from torch_go_xla import as_torch_xla
assert importlib.util.find_spec("torch_xla") is None
as_torch_xla.install()
as_torch_xla.install()
assert importlib.util.find_spec("torch_xla") and importlib.util.find_spec("torch_xla.core")
assert importlib.util.find_spec("torch_xla.nothing") is None
import torch_go_xla, torch_xla
import torch_xla.core.xla_model as xm
import torch_go_xla.core.xla_model as ours
from torch_xla.distributed.spmd import Mesh
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
"""


def test_one_module_by_two_names(ok) -> None:
    ok(ALIAS)


def test_a_torch_xla_that_is_there_keeps_its_name(python, tmp_path: pathlib.Path) -> None:
    (tmp_path / "torch_xla.py").write_text("")
    ended = python(f"""
import sys
sys.path.append({str(tmp_path)!r})
from torch_go_xla import as_torch_xla
as_torch_xla.install()
""")
    assert ended.code == 1 and "ImportError: there is a torch_xla already" in ended.err


def test_a_program_as_it_is(tmp_path: pathlib.Path) -> None:
    program = tmp_path / "program.py"
    (tmp_path / "beside.py").write_text("value = 7")
    program.write_text(
        "import sys, beside, torch_xla.core.xla_model as xm, torch\n"
        "from torch_go_xla import as_torch_xla; as_torch_xla.install()\n"
        "print(__name__, sys.argv[1:], beside.value, torch.ones(2, device=xm.xla_device()).sum().item())"
    )
    command = [sys.executable, "-m", "torch_go_xla.as_torch_xla"]
    done = subprocess.run([*command, str(program), "-x", "1"], capture_output=True, text=True, check=False)
    assert done.stdout == "__main__ ['-x', '1'] 7 2.0\n", done.stderr
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr.startswith("usage: python -m torch_go_xla.as_torch_xla PROGRAM")
