"""This package under the name ``torch_xla``, for programs and libraries that were written for that.

Either before the first import of what looks for ``torch_xla``, such as accelerate or transformers::

    from torch_go_xla import as_torch_xla
    as_torch_xla.install()

or for a whole program, whose text stays as it is::

    python -m torch_go_xla.as_torch_xla program.py ARGUMENTS...
    torchrun --nproc-per-node 2 -m torch_go_xla.as_torch_xla program.py ARGUMENTS...

Processes that such a program spawns have the name too. A program that calls `install` must do so at the head of its
main file, which spawned processes import again.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata
from types import ModuleType
from typing import Any

import torch_go_xla
from torch_go_xla import _absent

__all__ = ["VERSION", "install"]

# The release whose interface this is, and whose implementation.
VERSION = f"2.9.0+go.{torch_go_xla.__version__}"

_OURS, _THEIRS = "torch_go_xla", "torch_xla"
_PROGRAM = "TORCH_GO_XLA_PROGRAM"  # the program of `python -m`, passed to the processes that it spawns


class _Package(ModuleType):
    """The package ``torch_xla``: what it has of its own is its version."""

    __version__ = VERSION

    def __getattr__(self, name: str) -> Any:
        return getattr(torch_go_xla, name)

    def __dir__(self) -> Iterable[str]:
        return {*dir(torch_go_xla), *super().__dir__()}


class _Distribution(metadata.Distribution):
    """The installed distribution ``torch_xla``, as far as libraries ask for it."""

    _FILES = {
        "METADATA": f"Metadata-Version: 2.1\nName: {_THEIRS}\nVersion: {VERSION}\n",
        "top_level.txt": f"{_THEIRS}\n",
    }

    def read_text(self, filename: str) -> str | None:
        return self._FILES.get(filename)

    def locate_file(self, path: Any) -> Any:
        return metadata.distribution(_OURS).locate_file(path)


class _Finder(metadata.DistributionFinder, importlib.abc.Loader):
    """Finds ``torch_xla.x`` as ``torch_go_xla.x``: one module by two names."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        package, _, rest = fullname.partition(".")
        if package != _THEIRS:
            return None
        ours = importlib.util.find_spec(f"{_OURS}.{rest}" if rest else _OURS)
        if ours is None:
            why = _absent.reason(fullname)
            if why is not None:
                raise ModuleNotFoundError(f"torch_go_xla has no {fullname}: {why}", name=fullname)
            return None
        spec = importlib.machinery.ModuleSpec(fullname, self, origin=ours.origin, loader_state=ours)
        spec.submodule_search_locations = ours.submodule_search_locations
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        if spec.name == _THEIRS:
            return _Package(_THEIRS, torch_go_xla.__doc__)
        return importlib.import_module(spec.loader_state.name)

    def exec_module(self, module: ModuleType) -> None:
        if not isinstance(module, _Package):  # a module of ours, on which the import has left the spec of the alias
            module.__spec__ = module.__spec__.loader_state  # type: ignore[union-attr]

    def find_distributions(
        self, context: metadata.DistributionFinder.Context | None = None
    ) -> Iterator[metadata.Distribution]:
        if context is None or context.name is None or context.name.replace("-", "_").lower() == _THEIRS:
            yield _Distribution()


def install() -> None:
    """Let ``torch_xla`` and its modules be imported, and found by libraries that ask what is installed.

    A second call does nothing.

    Raises:
        ImportError: a ``torch_xla`` is installed. Two cannot have the device "xla".

    Example:
        >>> from torch_go_xla import as_torch_xla
        >>> as_torch_xla.install()
        >>> import torch_xla.core.xla_model as xm
        >>> xm.xla_device()
        device(type='xla', index=0)
    """
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    spec = importlib.util.find_spec(_THEIRS)
    if spec is not None:
        raise ImportError(f"there is a torch_xla already: {spec.origin}; torch_go_xla cannot have its name")
    sys.meta_path.insert(0, _Finder())


def _run(name: str) -> None:
    """Run the program that the command line names, in the namespace of the module ``name``, which runs already.

    That is ``__main__``, or ``__mp_main__`` in a process that the program has spawned. The module keeps its
    ``__spec__``, which names this file, so that a spawned process comes here before it looks for the program's
    functions; the path of the program is in its environment.
    """
    if name == "__main__":
        if len(sys.argv) < 2:
            sys.exit(f"usage: python -m {_OURS}.as_torch_xla PROGRAM [ARGUMENT...]")
        del sys.argv[0]
        os.environ[_PROGRAM] = os.path.abspath(sys.argv[0])
        if not sys.flags.safe_path:
            sys.path[0] = os.path.dirname(os.environ[_PROGRAM])
    install()
    program = os.environ[_PROGRAM]
    with io.open_code(program) as file:
        code = compile(file.read(), program, "exec", dont_inherit=True)
    namespace = vars(sys.modules[name])
    for own in [own for own in namespace if not own.startswith("__")]:
        del namespace[own]
    namespace.update(__file__=program, __doc__=None)
    exec(code, namespace)


if __name__ in ("__main__", "__mp_main__"):
    from torch_go_xla.as_torch_xla import _run as run  # of the module, not of the copy of it that runs here

    run(__name__)
