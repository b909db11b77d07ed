"""Makes the wheels of both packages, audits them, and tries them where there is no compiler.

A wheel of torch-go-xla is for one CPython, that of pjrt-xla-cpu for any. Each
CPython of the machine that the package supports gets its wheel, in ``dist/``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from . import BUILD, ROOT, interpreters, plugin
from .requirements import package_build_requirements
from .target import TARGETS, target
from .toolchain import BuildError, toolchain

DIST = ROOT / "dist"
PLATFORM = TARGETS["x86_64"].platform  # of the CPU plugin
# The newest symbol versions of that platform: glibc 2.28's and GCC 8's.
NEWEST = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 25), "CXXABI": (1, 3, 11), "GCC": (7, 0, 0)}
LARGEST = 20 << 20  # bytes that a wheel of torch-go-xla may have


def _run(*command: str | Path, **env: str) -> str:
    """Run a command in the source tree and return what it prints; BuildError if it fails."""
    words = [str(c) for c in command]
    done = subprocess.run(words, cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"`{' '.join(words)}` failed with status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def _wheel(python: str | Path, source: Path, platform: str, **env: str) -> None:
    """Build the wheel of a package for a platform, by a Python that has its build requirements."""
    pip = (python, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--wheel-dir", DIST)
    _run(*pip, f"--config-settings=--build-option=--plat-name={platform}", source, **env)


def build() -> list[Path]:
    """Build all wheels, for each machine whose compilers are here; return them."""
    shutil.rmtree(DIST, ignore_errors=True)
    tools = toolchain()
    plugin.build(tools)
    # The environments of the other Pythons do not have the Go that is a package of this one.
    path = f"{tools.go.parent}{os.pathsep}{os.environ['PATH']}"
    print(f"pjrt-xla-cpu, with Python {sys.version.split()[0]}", flush=True)
    _wheel(sys.executable, plugin.SOURCE, PLATFORM, PJRT_XLA_CPU_BUILT=str(BUILD / "xlacpu"))
    for version, python in interpreters.pythons(interpreters.SUPPORTED).items():
        venv = BUILD / "wheels" / version
        if not (venv / "bin" / "python").exists():
            _run(python, "-m", "venv", venv)
        _run(venv / "bin" / "python", "-m", "pip", "install", "-q", *package_build_requirements())
        for t in TARGETS.values():
            if t.missing:
                continue
            print(f"torch-go-xla, for Python {version} on {t.machine}", flush=True)
            _wheel(venv / "bin" / "python", ROOT, t.platform, TORCH_GO_XLA_TARGET=t.machine, PATH=path)
    return sorted(DIST.glob("*.whl"))


def audit() -> None:
    """Print size and platform of each wheel in dist/; BuildError if one is too large or does not fit its tag."""
    for wheel in sorted(DIST.glob("*.whl")):
        size = wheel.stat().st_size
        if wheel.name.startswith("pjrt_xla_cpu"):
            _check_versions(BUILD / "xlacpu")
            print(f"{wheel.name}: {size / 1e6:.1f} MB, {PLATFORM} by its symbol versions", flush=True)
            continue
        shown = " ".join(_run(sys.executable, "-m", "auditwheel", "show", wheel).split())
        tags = re.search(r'consistent with the following platform tag: "(\w+)"', shown)
        print(f"{wheel.name}: {size / 1e6:.1f} MB, {tags[1] if tags else shown}", flush=True)
        wanted = wheel.stem.rpartition("-")[2]
        if tags is None or not _fits(tags[1], wanted):
            raise BuildError(f"{wheel.name} does not fit {wanted}: {shown}")
        if size > LARGEST:
            raise BuildError(f"{wheel.name} has {size} bytes, want at most {LARGEST}")


def _check_versions(directory: Path) -> None:
    """Check the symbol versions of the CPU plugin's libraries; auditwheel takes many minutes for 450,000 symbols."""
    for name in (plugin.LIBRARY, *plugin.BESIDE):
        shown = _run("readelf", "-VW", directory / name)
        for library, text in re.findall(r"Name: (\w+?)_([\d.]+)\b", shown):
            if tuple(map(int, text.split("."))) > NEWEST[library]:
                raise BuildError(f"{name} asks for {library}_{text}, which {PLATFORM} does not have")


def _fits(tag: str, platform: str) -> bool:
    """Tell whether what auditwheel found is not newer than the platform of a wheel."""
    found, wanted = (re.fullmatch(r"manylinux_(\d+)_(\d+)_(\w+)", text) for text in (tag, platform))
    if found is None or wanted is None:
        return False
    return found[3] == wanted[3] and tuple(map(int, found.groups()[:2])) <= tuple(map(int, wanted.groups()[:2]))


def try_out(*versions: str) -> None:
    """Install the wheels for each Python, or those of some versions, where no compiler is, and train a model."""
    pythons = interpreters.pythons(interpreters.SUPPORTED)
    for version in versions or tuple(pythons):
        with tempfile.TemporaryDirectory(prefix="torch-go-xla-") as directory:
            print(f"Python {version}: {_try_one(pythons[version], version, Path(directory))}", flush=True)


def _try_one(python: str, version: str, place: Path) -> str:
    """Install and train in a new environment, with nothing on the PATH but its commands; tell time and disk."""
    environment = {"PATH": str(place / "venv" / "bin"), "HOME": str(place), "LANG": "C.UTF-8"}
    kept = {k: v for k, v in os.environ.items() if k.startswith("PIP_") or k in ("TMPDIR", "SSL_CERT_FILE")}
    env = {**kept, "PIP_CACHE_DIR": os.environ.get("PIP_CACHE_DIR", str(Path.home() / ".cache" / "pip")), **environment}
    for tool in ("gcc", "cc", "g++", "c++", "go", "make"):
        assert shutil.which(tool, path=env["PATH"]) is None

    def run(*command: str | Path) -> tuple[str, float]:
        begin = time.monotonic()
        words = [str(c) for c in command]
        done = subprocess.run(words, cwd=place, env=env, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BuildError(f"`{' '.join(words)}` failed for Python {version}\n{done.stdout}{done.stderr}")
        return done.stdout, time.monotonic() - begin

    run(python, "-m", "venv", place / "venv")
    mine, tag = place / "venv" / "bin" / "python", f"cp{version.replace('.', '')}"
    (wheel,) = DIST.glob(f"torch_go_xla-*-{tag}-{tag}-{target().platform}.whl")
    (cpu,) = DIST.glob("pjrt_xla_cpu-*.whl")
    _, installed = run(mine, "-m", "pip", "install", "-q", cpu, f"{wheel}[examples]")
    sizes = {p: sum(f.lstat().st_size for f in p.rglob("*")) for p in place.glob("venv/lib/*/site-packages")}
    report, _ = run(mine, "-m", "torch_go_xla.doctor")
    shutil.copy(ROOT / "examples" / "digits.py", place)
    _, trained = run(mine, "digits.py")
    last = report.splitlines()[-1]
    return f"installed in {installed:.0f} s, {sum(sizes.values()) / 1e9:.1f} GB; {last}; trained in {trained:.0f} s"
