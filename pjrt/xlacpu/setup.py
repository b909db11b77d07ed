"""Packages the plugin: compiles it with make, or takes what the repository's build has made.

The environment:
  PJRT_XLA_CPU_BUILT   a folder with the four libraries; nothing is compiled then

The wheel fits any Python 3: it holds no extension module.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel as _bdist_wheel
from setuptools.command.build_py import build_py as _build_py

HERE = Path(__file__).resolve().parent
PACKAGE = "pjrt_xla_cpu"
LIBRARIES = tuple(f"libpjrt_xla_cpu{part}.so" for part in ("", "_impl", "_cc", "_framework"))
LICENSES = {"include/LICENSE": "LICENSE.tensorflow", "THIRD_PARTY_NOTICES.txt": "NOTICES.tensorflow"}


def tensorflow() -> Path:
    """Return the folder of the TensorFlow that pyproject.toml asks for, without importing it."""
    required = tomllib.loads((HERE / "pyproject.toml").read_text())["build-system"]["requires"]
    wanted = next(text for text in required if text.startswith("tensorflow-cpu=="))
    try:
        found = f"tensorflow-cpu=={importlib.metadata.version('tensorflow-cpu')}"
    except importlib.metadata.PackageNotFoundError:
        found = "none"
    spec = importlib.util.find_spec("tensorflow")
    if found != wanted or spec is None or not spec.submodule_search_locations:
        sys.exit(f"pjrt-xla-cpu is built with {wanted}; installed here: {found}")
    return Path(spec.submodule_search_locations[0])


def carry_licenses() -> None:
    """Put TensorFlow's licence, and those of what it is made of, among the licences of this package."""
    for source, name in LICENSES.items():
        target = HERE / "licenses" / name
        if not target.exists():
            shutil.copyfile(tensorflow() / source, target)


def built() -> Path:
    """Return the folder with the libraries; compile them there if that was not done."""
    given = os.environ.get("PJRT_XLA_CPU_BUILT")
    if given:
        return Path(given)
    out = HERE / "build" / "native"
    command = ["make", f"-j{os.cpu_count()}", f"TF={tensorflow()}", f"OUT={out}", f"PYTHON={sys.executable}"]
    subprocess.run(command, cwd=HERE, check=True)
    return out


class build_py(_build_py):
    """Puts the libraries beside the modules."""

    def run(self) -> None:
        super().run()
        folder = HERE / PACKAGE if self.editable_mode else Path(self.build_lib) / PACKAGE
        source = built()
        for name in LIBRARIES:
            target = folder / name
            target.unlink(missing_ok=True)
            if self.editable_mode:  # a rebuild then shows
                target.symlink_to(os.path.relpath(source / name, folder))
            else:
                shutil.copy2(source / name, target)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        folder = Path(self.build_lib) / PACKAGE
        return [*super().get_outputs(include_bytecode), *(str(folder / name) for name in LIBRARIES)]


class bdist_wheel(_bdist_wheel):
    """Tags the wheel: any Python 3, one platform."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


class BinaryDistribution(Distribution):
    """One whose files belong to a platform, though it has no extension module."""

    def has_ext_modules(self) -> bool:
        return True


carry_licenses()
setup(cmdclass={"build_py": build_py, "bdist_wheel": bdist_wheel}, distclass=BinaryDistribution)
