"""What the two wheels carry, and what building them needs."""

import re
import subprocess
from pathlib import Path

from build_support import backend, pipeline, plugin, requirements, surface


def test_the_plugin_is_a_wheel_of_its_own():
    assert not [p for p in pipeline.products() if "_go" not in p.parts]
    assert not [r for r in backend.get_requires_for_build_wheel() if "tensorflow" in r]


def test_the_source_tree_needs_the_release_of_tensorflow_that_the_plugin_names():
    assert plugin.requirement().startswith("tensorflow-cpu==")
    assert plugin.requirement() in requirements.all_requirements()


def test_the_source_tree_has_the_plugin_and_what_it_needs_beside_it():
    folder = Path(pipeline.SOURCE_TREE, pipeline.PACKAGE, "_lib")
    assert {p.name for p in folder.iterdir()} == {plugin.LIBRARY, *plugin.BESIDE}
    assert all(p.resolve().is_file() for p in folder.iterdir())


def test_the_go_library_needs_no_newer_system_than_its_wheel_says():
    """The symbol versions of manylinux_2_28; the machine that builds it has a newer C library."""
    library = Path(pipeline.SOURCE_TREE, pipeline.PACKAGE, "_go", surface.library_name())
    shown = subprocess.run(["readelf", "-VW", library], capture_output=True, text=True, check=True).stdout
    versions = [tuple(map(int, text.split("."))) for text in re.findall(r"Name: GLIBC_([\d.]+)", shown)]
    assert versions and max(versions) <= (2, 28)
