"""Builds the XLA:CPU plugin of ``pjrt/xlacpu`` against the installed tensorflow-cpu.

The plugin uses XLA's C++ API, whose layouts change from release to release. The
one version that its pyproject.toml names is required to build it. At run time
the plugin has copies of that version's libraries beside it.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import sys
import tomllib
from pathlib import Path

from . import BUILD, ROOT
from .stamps import digest, fresh
from .toolchain import BuildError, Toolchain

SOURCE = ROOT / "pjrt" / "xlacpu"
LIBRARY = "libpjrt_xla_cpu.so"
BESIDE = tuple(f"libpjrt_xla_cpu_{part}.so" for part in ("impl", "cc", "framework"))  # what it needs beside itself
_BUILD_FILES = ("Makefile", "private_library.py")
_COMPILER_MEMORY = 2 << 30  # bytes that one compile of XLA's headers may take


def requirement() -> str:
    """Return the requirement on tensorflow-cpu, as the plugin's build requirements state it."""
    file = SOURCE / "pyproject.toml"
    for text in tomllib.loads(file.read_text())["build-system"]["requires"]:
        if text.startswith("tensorflow-cpu"):
            return str(text)
    raise BuildError(f"{file} does not name tensorflow-cpu among the build requirements")


def tensorflow() -> Path:
    """Return the directory of the installed tensorflow package, without importing it."""
    wanted_version = requirement().partition("==")[2]
    spec = importlib.util.find_spec("tensorflow")
    places = list(spec.submodule_search_locations or []) if spec else []
    if not places:
        raise BuildError(f"the CPU plugin needs {requirement()}, which is not installed")
    try:
        version = importlib.metadata.version("tensorflow-cpu")
    except importlib.metadata.PackageNotFoundError:
        raise BuildError(f"{places[0]} is not from the package tensorflow-cpu: install {requirement()}") from None
    if version != wanted_version:
        raise BuildError(f"the CPU plugin needs {requirement()}, tensorflow-cpu {version} is installed")
    return Path(places[0])


def _jobs() -> int:
    """Return how many compiles may run at once: one per core, as far as memory goes."""
    memory = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.M)
    fit = int(memory[1]) * 1024 // _COMPILER_MEMORY if memory else 1
    return max(1, min(os.cpu_count() or 1, fit))


def test_environment() -> list[str]:
    """Return the settings, NAME=value, by which the Go tests find the plugin of the last build; none without one."""
    out = BUILD / "xlacpu"
    if not (out / LIBRARY).is_file():
        return []
    header = out / "tensorflow" / "include" / "xla" / "pjrt" / "c" / "pjrt_c_api.h"
    return [f"TGX_XLA_CPU_PLUGIN={out / LIBRARY}", f"TGX_PJRT_HEADER={header}"]


def build(tools: Toolchain) -> list[Path]:
    """Build the plugin's libraries, unless sources, flags, compiler and tensorflow-cpu are the last build's."""
    package = tensorflow()
    if not (SOURCE / "Makefile").is_file():
        raise BuildError(f"{SOURCE} has no Makefile")
    out = BUILD / "xlacpu"
    out.mkdir(parents=True, exist_ok=True)
    compiler = tools.go_env("CXX")
    flags = [os.environ.get(name, "") for name in ("CXXFLAGS", "CPPFLAGS", "LDFLAGS")]
    tools_state = digest([], compiler, tools.run(*compiler.split(), "--version"), requirement(), *flags)
    found = [p for p in SOURCE.rglob("*") if p.suffix in (".c", ".cc", ".h", ".map") or p.name in _BUILD_FILES]
    sources = [p for p in found if "tests" not in p.relative_to(SOURCE).parts]
    state = digest(sources, tools_state)
    libraries, stamp, settings = [out / name for name in (LIBRARY, *BESIDE)], out / "stamp", out / "settings"
    if not fresh(settings, tools_state, []):  # objects of another compiler or other flags
        shutil.rmtree(out)
        out.mkdir()
        settings.write_text(tools_state)
    # Build environments come and go: one stable name keeps the paths in the objects' dependencies good.
    link = out / "tensorflow"
    link.unlink(missing_ok=True)
    link.symlink_to(package)
    if fresh(stamp, state, libraries):
        return libraries
    print("torch-go-xla: compiling the XLA:CPU plugin (minutes, the first time)", flush=True)
    settings_of_make = (f"TF={link}", f"OUT={out}", f"CXX={compiler}", f"PYTHON={sys.executable}")
    tools.run("make", f"-j{_jobs()}", "-C", SOURCE, *settings_of_make, show=True)
    missing = [str(p) for p in libraries if not p.is_file()]
    if missing:
        raise BuildError(f"make in {SOURCE} did not write {', '.join(missing)}")
    stamp.write_text(state)
    return libraries
