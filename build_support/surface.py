"""Builds the Go library: gopy's control surface and the fast module, in one file.

The steps, each into ``build/gopy/<SOABI>/``:

1. ``gopy gen`` on ``bindings/`` writes goxla.go, build.py, go.py, bindings.py;
2. goimports completes the imports, `harden` rewrites the texts;
3. ``cgo -exportheader`` writes goxla_go.h, and build.py (pybindgen) goxla.c;
4. one ``go build -buildmode=c-shared -tags=pyext`` links all of it.

Steps 1 to 3 depend only on bindings/ and are skipped while that is unchanged.
"""

from __future__ import annotations

import re
import shutil
import sys
import sysconfig
from pathlib import Path

from . import BUILD, ROOT, harden, old_glibc
from .stamps import digest, fresh
from .target import target
from .toolchain import BuildError, Toolchain

NAME = "goxla"  # the extension becomes _goxla; Go ignores files whose names begin with "_"
TAGS = "pyext"
PACKAGE = ROOT / "bindings"


def library_name() -> str:
    """Return the file name of the library for this Python on the target: _goxla.cpython-311-x86_64-linux-gnu.so."""
    return f"_{NAME}{target().suffix}"


def modules(package: Path = PACKAGE) -> list[str]:
    """Return the file names of the Python modules that gopy writes for a package."""
    return ["go.py", f"{package.name}.py"]


def _sources(package: Path) -> list[Path]:
    """Return the Go files of a package, without its tests."""
    return [p for p in package.glob("*.go") if not p.name.endswith("_test.go")]


def _generate(tools: Toolchain, package: Path, work: Path) -> None:
    """Write the Go, C and Python texts for a package into work, which lies inside the Go module."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    main = work / f"{NAME}.go"
    tools.run(
        tools.go, "tool", "gopy", "gen", "-no-make", "-dynamic-link", f"-build-tags={TAGS}",
        f"-vm={sys.executable}", f"-name={NAME}", f"-output={work}", f"./{package.relative_to(ROOT)}",
    )  # fmt: skip
    tools.run(tools.go, "tool", "goimports", "-w", main)
    text = main.read_text()
    declared = {m for p in _sources(package) for m in re.findall(r"^func ([A-Z]\w*)[(\[]", p.read_text(), re.M)}
    harden.check_surface(declared, text, package.name)
    main.write_text(harden.harden_go(text))
    script = work / "build.py"
    script.write_text(harden.harden_pybindgen(script.read_text()))
    for name in modules(package):
        module = work / name
        module.write_text(harden.harden_python(module.read_text()))
    tools.run(
        tools.go, "tool", "cgo", "-objdir", work / "cgo", "-exportheader", f"{NAME}_go.h",
        "--", f"-I{tools.python_include}", main.name, cwd=work,
    )  # fmt: skip
    tools.run(sys.executable, script, cwd=work)


def build(tools: Toolchain, version: str, package: Path = PACKAGE, work: Path | None = None) -> list[Path]:
    """Build the library for a package; return it and the Python modules that go beside it.

    The Go library is told the version. A version that the package has no
    variable for is ignored by the linker.
    """
    work = work or BUILD / "gopy" / str(sysconfig.get_config_var("SOABI"))
    inputs = [*_sources(package), *Path(__file__).parent.glob("*.py"), ROOT / "go.mod"]
    state = digest(inputs, tools.go_env("GOVERSION"), sys.version, sys.prefix, tools.python_include)
    stamp = work / "stamp"
    generated = [work / name for name in modules(package)]
    texts = [work / f"{NAME}.go", work / f"{NAME}.c", work / f"{NAME}_go.h", *generated]
    if not fresh(stamp, state, texts):
        print("torch-go-xla: generating the control surface", flush=True)
        _generate(tools, package, work)
        if not all(t.is_file() for t in texts):
            raise BuildError(f"gopy did not write all of {', '.join(t.name for t in texts)}")
        stamp.write_text(state)
    print("torch-go-xla: compiling the Go library", flush=True)
    module = tools.run(tools.go, "list", "-m").strip()
    variable = f"{module}/{package.relative_to(ROOT)}.version"
    library = work / library_name()
    old = work / f"old_glibc-{target().machine}"
    tools = target().tools(tools)
    old_glibc.stubs(tools, old)
    tools = old_glibc.linked(tools, old)
    tools.run(
        tools.go, "build", "-buildvcs=false", "-trimpath", "-buildmode=c-shared", f"-tags={TAGS}",
        f"-ldflags=-s -w -X {variable}={version}", "-o", library, ".", cwd=work,
    )  # fmt: skip
    return [library, *generated]
