"""The setuptools commands that build the native part of the package, the Go library."""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools.command.build import build as _build
from setuptools.command.build_ext import build_ext as _build_ext

from . import pipeline
from .toolchain import reported, toolchain


class build(_build):
    """Builds into an empty directory, so that modules removed from the sources leave no trace."""

    def run(self) -> None:
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


class build_ext(_build_ext):
    """Builds the Go library in place of compiling C extensions."""

    def run(self) -> None:
        destination = pipeline.SOURCE_TREE if self.inplace else Path(self.build_lib)
        with reported():
            pipeline.build_go(toolchain(), destination)

    def get_outputs(self) -> list[str]:
        return [str(Path(self.build_lib, p)) for p in pipeline.products()]

    def get_output_mapping(self) -> dict[str, str]:
        if not self.inplace:
            return {}
        return {str(Path(self.build_lib, p)): str(pipeline.SOURCE_TREE / p) for p in pipeline.products()}

    def get_source_files(self) -> list[str]:
        return []
