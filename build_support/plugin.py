"""Builds the XLA:CPU plugin of ``pjrt/xlacpu`` against the installed tensorflow-cpu.

The plugin uses XLA's C++ API, whose layouts change from release to release, so
the one version that pyproject.toml names is required, at build and at run time.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import tomllib
from pathlib import Path

from . import BUILD, ROOT
from .stamps import digest, fresh
from .toolchain import BuildError, Toolchain

SOURCE = ROOT / "pjrt" / "xlacpu"
LIBRARY = "libpjrt_xla_cpu.so"
SWITCH = "TORCH_GO_XLA_CPU_PLUGIN"  # 0 leaves the plugin out
_COMPILER_MEMORY = 2 << 30  # bytes that one compile of XLA's headers may take


def wanted() -> bool:
    """Tell whether the environment asks for the plugin; it does unless it says 0."""
    return os.environ.get(SWITCH, "1") != "0"


def requirement() -> str:
    """Return the requirement on tensorflow-cpu, as the project's run-time dependencies state it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for text in project["dependencies"]:
        if text.startswith("tensorflow-cpu"):
            return str(text)
    raise BuildError("pyproject.toml does not name tensorflow-cpu among the dependencies")


def tensorflow() -> Path:
    """Return the directory of the installed tensorflow package, without importing it."""
    wanted_version = requirement().partition("==")[2]
    spec = importlib.util.find_spec("tensorflow")
    places = list(spec.submodule_search_locations or []) if spec else []
    if not places:
        raise BuildError(f"the CPU plugin needs {requirement()}, which is not installed ({SWITCH}=0 leaves it out)")
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
    libraries = ("libtensorflow_framework.so.2", "libtensorflow_cc.so.2")  # in the order of loading
    preload = os.pathsep.join(str(out / "tensorflow" / name) for name in libraries)
    header = out / "tensorflow" / "include" / "xla" / "pjrt" / "c" / "pjrt_c_api.h"
    return [f"TGX_XLA_CPU_PLUGIN={out / LIBRARY}", f"TGX_XLA_CPU_PRELOAD={preload}", f"TGX_PJRT_HEADER={header}"]


def build(tools: Toolchain) -> list[Path]:
    """Build the plugin, unless its sources, flags, compiler and tensorflow-cpu are those of the last build."""
    package = tensorflow()
    if not (SOURCE / "Makefile").is_file():
        raise BuildError(f"{SOURCE} has no Makefile")
    out = BUILD / "xlacpu"
    out.mkdir(parents=True, exist_ok=True)
    compiler = tools.go_env("CXX")
    flags = [os.environ.get(name, "") for name in ("CXXFLAGS", "CPPFLAGS", "LDFLAGS")]
    tools_state = digest([], compiler, tools.run(*compiler.split(), "--version"), requirement(), *flags)
    found = [p for p in SOURCE.rglob("*") if p.suffix in (".cc", ".h", ".map") or p.name == "Makefile"]
    sources = [p for p in found if "tests" not in p.relative_to(SOURCE).parts]
    state = digest(sources, tools_state)
    library, stamp, settings = out / LIBRARY, out / "stamp", out / "settings"
    if not fresh(settings, tools_state, []):  # objects of another compiler or other flags
        shutil.rmtree(out)
        out.mkdir()
        settings.write_text(tools_state)
    # Build environments come and go: one stable name keeps the paths in the objects' dependencies good.
    link = out / "tensorflow"
    link.unlink(missing_ok=True)
    link.symlink_to(package)
    if fresh(stamp, state, [library]):
        return [library]
    print("torch-go-xla: compiling the XLA:CPU plugin (minutes, the first time)", flush=True)
    tools.run("make", f"-j{_jobs()}", "-C", SOURCE, f"TF={link}", f"OUT={out}", f"CXX={compiler}", show=True)
    if not library.is_file():
        raise BuildError(f"make in {SOURCE} did not write {library}")
    stamp.write_text(state)
    return [library]
