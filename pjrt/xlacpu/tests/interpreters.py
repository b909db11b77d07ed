"""Interpreters that have what a test needs; XLACPU_JAX_PYTHON names them."""

import os
import subprocess
import sys


def python_imports(python, module):
    """Whether the interpreter has the module."""
    code = f"import importlib.util as u, sys; sys.exit(u.find_spec({module!r}) is None)"
    return subprocess.run([python, "-c", code]).returncode == 0


def pythons_with(module):
    """The interpreters among XLACPU_JAX_PYTHON, or this one, with the module."""
    given = os.environ.get("XLACPU_JAX_PYTHON", sys.executable).split(":")
    return [python for python in given if python_imports(python, module)]


def lapack_of(python):
    """A LAPACK library: the one given, or that of the interpreter's package."""
    if "XLACPU_LAPACK" in os.environ:
        return os.environ["XLACPU_LAPACK"]
    code = (
        "import scipy_openblas32 as s, pathlib;print(next(pathlib.Path(s.get_lib_dir()).glob('libscipy_openblas.so*')))"
    )
    done = subprocess.run([python, "-c", code], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None
