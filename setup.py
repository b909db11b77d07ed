"""Tells setuptools that the package has native parts; build_support builds them."""

import sys
from pathlib import Path

from setuptools import Extension, setup

sys.path.insert(0, str(Path(__file__).resolve().parent))

from build_support import commands  # noqa: E402 (found by the line above)

setup(
    # The extension has no sources for setuptools: it makes the wheel one for this CPython and platform.
    ext_modules=[Extension("torch_go_xla._go._goxla", sources=[])],
    cmdclass={"build": commands.build, "build_ext": commands.build_ext},
)
