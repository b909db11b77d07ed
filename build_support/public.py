"""The public names of our Python packages, read from the sources without importing them.

The reference of the documentation site and the rules of docstrings go by this walk. A module is public if no part of
its name begins with an underscore. Its public names are those of its ``__all__``.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import io
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeGuard

from . import ROOT

__all__ = ["PACKAGES", "PYTHON", "Module", "Name", "comment", "constants", "documented", "modules"]

PYTHON = ROOT / "python"
PACKAGES = ("torch_go_xla", "torch_go_xla_runtime")

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Module(NamedTuple):
    """A public module, with its public names in the order of ``__all__``."""

    name: str
    path: Path
    names: list[str]


class Name(NamedTuple):
    """A public function, class or method where it is written; ``owner`` is the class of a method."""

    name: str
    node: Definition
    owner: ast.ClassDef | None = None


@functools.cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _names(path: Path) -> list[str]:
    """Return the public names that a module's ``__all__`` has, with those that are added to it of another's."""
    found: list[str] = []
    for node in _tree(path).body:
        match node:
            case (
                ast.Assign(targets=[ast.Name("__all__")], value=value)
                | ast.AnnAssign(target=ast.Name("__all__"), value=ast.List() as value)
            ):
                found += ast.literal_eval(value)
            case ast.AugAssign(target=ast.Name("__all__"), value=ast.Attribute(ast.Name(other), "__all__")):
                found += _names(path.parent / f"{other}.py")
    return [name for name in found if not name.startswith("_")]


def modules() -> list[Module]:
    """Return the public modules that have public names, in the order of their names."""
    found = []
    for path in sorted(p for package in PACKAGES for p in (PYTHON / package).rglob("*.py")):
        parts = path.relative_to(PYTHON).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if not any(part.startswith("_") for part in parts) and (names := _names(path)):
            found.append(Module(".".join(parts), path, names))
    return found


def _imported(path: Path, node: ast.ImportFrom) -> Path | None:
    """Return the file of the module that a statement imports from; None if it is not one of ours."""
    if node.level:
        folder = path.parents[node.level - 1]
    elif (node.module or "").partition(".")[0] in PACKAGES:
        folder = PYTHON
    else:
        return None
    target = folder.joinpath(*(node.module or "").split(".")) if node.module else folder
    return next((p for p in (target.with_suffix(".py"), target / "__init__.py") if p.is_file()), None)


@functools.cache
def _statements(path: Path) -> list[ast.stmt]:
    """Return the statements of a module, those of its branches too."""
    found: list[ast.stmt] = []
    left = list(_tree(path).body)
    while left:
        node = left.pop(0)
        found.append(node)
        if isinstance(node, ast.If | ast.Try):
            left = [*node.body, *node.orelse, *left]
    return found


def _definition(path: Path, name: str) -> Definition | None:
    """Return where a name of a module is defined, in it or in the module that it is imported from."""
    for node in reversed(_statements(path)):  # the last one counts: overloads come first
        if isinstance(node, Definition) and node.name == name:
            return node
        if not isinstance(node, ast.ImportFrom):
            continue
        source = _imported(path, node)
        if source is not None and source != path:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return _definition(source, alias.name)
                if alias.name == "*" and name in _names(source):
                    return _definition(source, name)
    return None


def comment(lines: Sequence[str], number: int) -> str:
    """Return the comment at the end of a line, else those directly above it; "" if there is none.

    Args:
        lines: the lines of a module.
        number: of the line, from 1.
    """
    with contextlib.suppress(tokenize.TokenError):
        for token in tokenize.generate_tokens(io.StringIO(lines[number - 1]).readline):
            if token.type == tokenize.COMMENT and "noqa" not in token.string:
                return token.string.lstrip("# ")
    above: list[str] = []
    for line in reversed(lines[: number - 1]):
        if not line.startswith("#"):
            break
        above.insert(0, line.lstrip("# ").rstrip())
    return " ".join(above)


def constants() -> Iterator[tuple[str, str]]:
    """Yield the public constants of ours, each with what is said of it: the text or the comment at its definition."""
    for module in modules():
        for name in module.names:
            found = _assigned(module.path, name)
            if found is not None:
                path, said, number = found
                lines = path.read_text(encoding="utf-8").splitlines()
                yield f"{module.name}.{name}", said or comment(lines, number)


def _assigned(path: Path, name: str) -> tuple[Path, str, int] | None:
    """Return where a name of a module is assigned: the file, the text below it, the number of the line."""
    body = _tree(path).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        match node:
            case ast.Assign(targets=[ast.Name(target)]) | ast.AnnAssign(target=ast.Name(target)) if target == name:
                below = after.value if isinstance(after, ast.Expr) else None
                text = below.value if isinstance(below, ast.Constant) and isinstance(below.value, str) else ""
                return path, text, node.lineno
        source = _imported(path, node) if isinstance(node, ast.ImportFrom) else None
        if isinstance(node, ast.ImportFrom) and source is not None and source != path:
            for alias in node.names:
                if (alias.asname or alias.name) == name or (alias.name == "*" and name in _names(source)):
                    return _assigned(source, name if alias.name == "*" else alias.name)
    return None


def documented() -> Iterator[Name]:
    """Yield the public functions and classes of ours, and the classes' public methods, each once.

    A name that two modules have is that of the first. Constants, and names that are torch's, are left out.
    """
    seen: set[Definition] = set()
    for module in modules():
        for name in module.names:
            node = _definition(module.path, name)
            if node is None or node in seen:
                continue
            seen.add(node)
            yield Name(f"{module.name}.{name}", node)
            if isinstance(node, ast.ClassDef):
                for member in node.body:
                    if _is_public_method(member):
                        yield Name(f"{module.name}.{name}.{member.name}", member, node)


def _is_public_method(member: ast.stmt) -> TypeGuard[ast.FunctionDef | ast.AsyncFunctionDef]:
    if not isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef) or member.name.startswith("_"):
        return False
    return not any(ast.unparse(decorator).endswith(".setter") for decorator in member.decorator_list)
