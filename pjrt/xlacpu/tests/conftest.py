"""Where the tests find the plugin, TensorFlow's headers and JAX.

Environment:
  XLACPU_PLUGIN       the library under test (build/xlacpu/libpjrt_xla_cpu.so)
  XLACPU_TENSORFLOW   the folder of the tensorflow package (the importable one)
  XLACPU_JAX_PYTHON   interpreters with jax, separated by ":" (this one)
  XLACPU_LAPACK       a LAPACK library (that of the package scipy-openblas32)
"""

import importlib.util
import os
import pathlib
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
BUILD = ROOT / "build" / "xlacpu"


def package_folder(name):
    """The folder of an importable package, without importing it, or None."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        return None
    return pathlib.Path(next(iter(spec.submodule_search_locations)))


@pytest.fixture(scope="session")
def tensorflow():
    """The folder with the headers."""
    given = os.environ.get("XLACPU_TENSORFLOW")
    folder = pathlib.Path(given) if given else package_folder("tensorflow")
    if folder is None or not (folder / "libtensorflow_cc.so.2").exists():
        pytest.skip("tensorflow-cpu 2.21.0 is not installed: set XLACPU_TENSORFLOW")
    return folder


@pytest.fixture(scope="session")
def plugin():
    """The library under test."""
    path = pathlib.Path(os.environ.get("XLACPU_PLUGIN", BUILD / "libpjrt_xla_cpu.so"))
    if not path.exists():
        pytest.skip(f"{path} is not built: make -C pjrt/xlacpu OUT={BUILD}")
    return path


@pytest.fixture(scope="session")
def native(tensorflow):
    """The compiled tests of the C API."""
    out = BUILD / "native_tests"
    done = subprocess.run(
        ["make", "-s", "-C", str(HERE.parent), f"TF={tensorflow}", f"OUT={out}", "tests"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return out / "xlacpu_tests"


@pytest.fixture(scope="session")
def clean_environment():
    """This process's environment without what the plugin, XLA or JAX read."""
    prefixes = ("XLA", "TF_", "JAX", "PJRT_", "CPU_NUM_DEVICES")
    env = {k: v for k, v in os.environ.items() if not k.startswith(prefixes)}
    env["TF_ENABLE_ONEDNN_OPTS"] = "0"  # what a loader sets; see README.md
    return env
