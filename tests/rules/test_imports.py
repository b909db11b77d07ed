"""Imports within the package point down only, as gocore/internal/deptest holds for Go; public modules have `__all__`.

Imports in functions count: they may put off a cost, but not hide a circle.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import torch_go_xla

NAME = "torch_go_xla"
PACKAGE = Path(torch_go_xla.__file__).parent

# The floors, from the top. A module is on the floor of the longest name that it begins with; it may import from its own
# floor and from those below.
FLOORS = (
    # what programs import beside torch
    ("as_torch_xla", "distributed", "doctor", "experimental"),
    ("amp", "aot", "core", "debug", "stablehlo", "tiers", "utils", "version"),
    # the package itself, and what its import installs
    ("", "_XLAC", "_compile", "_info", "_launch", "_seams", "_step", "custom_ops"),
    ("_dynamo", "backends", "core._collectives", "debug.metrics", "debug.metrics_saver", "runtime"),
    ("distributed._members", "distributed.tensor", "distributed.xla_backend"),
    ("_core",),
    # the device of torch
    ("_backend.composed",),
    ("_backend",),
    # leaves
    (
        "_absent",
        "_control",
        "_gpus",
        "_job",
        "_submodules",
        "_lifetime",
        "_version",
        "_vocabulary",
        "core.xla_env_vars",
        "plugins",
        "utils.closures",
    ),
)


def modules() -> dict[str, Path]:
    """Return the files by the names of the modules within the package, "" for the package's own."""
    found = {}
    for file in PACKAGE.rglob("*.py"):
        parts = file.relative_to(PACKAGE).with_suffix("").parts
        if parts[0] != "_go":
            found[".".join(parts).removesuffix("__init__").removesuffix(".")] = file
    return found


MODULES = modules()


def imported(module: str, node: ast.AST) -> Iterator[str]:
    """Yield the modules of the package that a statement imports."""
    if isinstance(node, ast.Import):
        names = [a.name for a in node.names]
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            here = [NAME, *filter(None, module.split("."))]
            up = node.level - (MODULES[module].name == "__init__.py")
            base = ".".join([*here[: len(here) - up], *filter(None, [node.module])])
        names = [f"{base}.{a.name}" for a in node.names]
        names = [n if n.removeprefix(NAME + ".") in MODULES else base for n in names]
    else:
        return
    for name in names:
        inner = name.removeprefix(NAME).removeprefix(".")
        if name.split(".")[0] == NAME and inner in MODULES and inner != module:
            yield inner


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imports(module: str) -> set[str]:
    """Return what a module imports of the package, but for types alone."""
    found, left = set(), [ast.parse(MODULES[module].read_text())]
    while left:
        node = left.pop()
        found.update(imported(module, node))
        left.extend(n for n in ast.iter_child_nodes(node) if not is_for_types(n))
    return found


IMPORTS = {module: imports(module) for module in MODULES}


def floor(module: str) -> int:
    def fits(prefix: str) -> bool:
        return module == prefix or bool(prefix) and module.startswith(prefix + ".")

    return max((len(p), n) for n, prefixes in enumerate(FLOORS) for p in prefixes if fits(p))[1]


def test_imports_point_down() -> None:
    up = [f"{m} → {i}" for m in MODULES for i in IMPORTS[m] if floor(i) < floor(m)]
    assert up == []


def test_there_are_no_circles() -> None:
    ends: set[str] = set()  # modules that no circle goes through
    while left := {m for m in MODULES if m not in ends and IMPORTS[m] <= ends}:
        ends |= left
    assert sorted(MODULES.keys() - ends) == []


def test_public_modules_say_what_they_offer() -> None:
    public = [m for m in MODULES if not any(part.startswith("_") for part in m.split("."))]
    assert len(public) > 50
    assert [m for m in public if "__all__" not in MODULES[m].read_text()] == []


def test_what_they_offer_is_there() -> None:
    for module, file in MODULES.items():
        tree = ast.parse(file.read_text())
        names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        names |= {n.name for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
        names |= {
            a.asname or a.name for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom)) for a in n.names
        }
        for n in tree.body:
            if isinstance(n, ast.Assign) and getattr(n.targets[0], "id", "") == "__all__":
                assert set(ast.literal_eval(n.value)) <= names | MODULES.keys() | set(_submodules(module)), module


def _submodules(module: str) -> list[str]:
    return [m.rpartition(".")[2] for m in MODULES if m.rpartition(".")[0] == module]
