"""The package under the name torch_xla, and libraries that look for that: accelerate, and transformers' Trainer."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest


def test_one_module_by_two_names(ok) -> None:
    ok("as_torch_xla/alias.py")


def test_a_torch_xla_that_is_there_keeps_its_name(python, tmp_path: pathlib.Path) -> None:
    (tmp_path / "torch_xla.py").write_text("")
    install = "from torch_go_xla import as_torch_xla; as_torch_xla.install()"
    ended = python(f"import sys; sys.path.append({str(tmp_path)!r})\n{install}")
    assert ended.code == 1 and "ImportError: there is a torch_xla already" in ended.err


@pytest.mark.longer
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


@pytest.mark.longer
def test_what_a_program_spawns_has_the_name_too() -> None:
    program = pathlib.Path(__file__).parent / "programs/as_torch_xla/spawns.py"
    command = [sys.executable, "-m", "torch_go_xla.as_torch_xla", str(program), "-x"]
    env = {**os.environ, "PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": "2"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    want = [f"{place} __mp_main__ True ['-x'] 2.0" for place in range(4)]
    assert sorted(done.stdout.splitlines()) == want, done.stderr


def test_transformers_trainer(ok, tmp_path: pathlib.Path) -> None:
    """Losses and weights as on the CPU, nothing compiled once it runs, also when it resumes."""
    ok("as_torch_xla/trainer.py", OPTIONS="{}", FOLDER=str(tmp_path))


def test_transformers_trainer_fully_sharded(ok, tmp_path: pathlib.Path) -> None:
    config = {"xla": True, "xla_fsdp_v2": True, "xla_fsdp_grad_ckpt": True, "min_num_params": 0}
    config["transformer_layer_cls_to_wrap"] = ["LlamaDecoderLayer"]
    options = json.dumps({"fsdp": True, "fsdp_config": config})
    ok("as_torch_xla/trainer.py", OPTIONS=options, FOLDER=str(tmp_path), XLA_USE_SPMD="1", CPU_NUM_DEVICES="4")


def test_accelerate(ok, tmp_path: pathlib.Path) -> None:
    """A loop with accumulated gradients, clipping, gathering, and a state that is saved and loaded."""
    ok(
        "as_torch_xla/accelerated_loop.py",
        FOLDER=str(tmp_path / "state"),
    )
