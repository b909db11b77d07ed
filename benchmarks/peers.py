"""``python -m benchmarks.peers [NAME ...]``: install the peers that `make bench` compares with.

Each has a virtual environment of its own, as they need other versions of torch, in the folder BENCH_PEERS
(``~/.cache/torch-go-xla-peers`` by default). One that is there already is left as it is; one that cannot be installed
is named, and left out of the benchmarks.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from . import subjects


def _folder(name: str) -> Path:
    home = os.environ.get("BENCH_PEERS") or Path.home() / ".cache" / "torch-go-xla-peers"
    return Path(home).expanduser() / name


def _stamp(name: str) -> str:
    return "\n".join(subjects.load(name).REQUIRES)


def python(name: str) -> str:
    """Return the Python of a peer; LookupError if it is not installed."""
    folder = _folder(name)
    done = folder / "installed"
    if not done.exists() or done.read_text() != _stamp(name):
        raise LookupError(f"not installed: python -m benchmarks.peers {name}")
    return str(folder / "bin" / "python")


def _interpreters(version: str) -> Iterator[str]:
    """Yield what may be a Python of a version: on the path, or installed by pyenv."""
    found = shutil.which(f"python{version}")
    if found:
        yield found
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from map(str, sorted(root.glob(f"versions/{version}*/bin/python{version}")))


def interpreter(versions: tuple[str, ...]) -> str:
    """Return the first Python of these versions that can make an environment; LookupError if there is none."""
    for version in versions:
        for candidate in _interpreters(version):
            tried = subprocess.run([candidate, "-c", "import venv, ensurepip"], capture_output=True, check=False)
            if tried.returncode == 0:
                return candidate
    raise LookupError(f"no Python {' or '.join(versions)}")


def install(name: str) -> None:
    """Install a peer, unless that is done; LookupError and CalledProcessError if it cannot be."""
    try:
        python(name)
        return
    except LookupError:
        pass
    folder = _folder(name)
    subprocess.run([interpreter(subjects.load(name).VERSIONS), "-m", "venv", "--clear", folder], check=True)
    pip = [folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, *subjects.load(name).REQUIRES], check=True)
    (folder / "installed").write_text(_stamp(name))


def main() -> None:
    """Install the peers that are named, or all."""
    known = [name for name in subjects.names() if hasattr(subjects.load(name), "REQUIRES")]
    for name in sys.argv[1:] or known:
        try:
            install(name)
            print(f"{name}: {python(name)}", flush=True)
        except (LookupError, subprocess.CalledProcessError, OSError) as e:
            print(f"{name}: left out: {e}", flush=True)


if __name__ == "__main__":
    main()
