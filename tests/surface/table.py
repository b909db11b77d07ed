"""Write the public names and signatures of a release of torch_xla, from its sources: facts, no code.

    python tests/surface/table.py FOLDER > tests/surface/torch_xla-2.9.0.txt

FOLDER holds the package ``torch_xla`` as its wheel unpacks it. One line a name, below its module: functions with
their parameters, classes, their public methods, constants. Defaults that are not literals stand as ``...``.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

# What is not its interface: tests, its kernels for one TPU compiler, what its names say is internal.
_LEFT_OUT = ("_internal", "_dynamo", "test", "pallas_kernels", "lib")


def _default(node: ast.expr) -> str:
    try:
        ast.literal_eval(node)
    except ValueError:
        return "..."
    return ast.unparse(node)


def _parameters(a: ast.arguments) -> str:
    plain = [*a.posonlyargs, *a.args]
    defaults: list[ast.expr | None] = [None] * (len(plain) - len(a.defaults)) + list(a.defaults)
    out = [p.arg if d is None else f"{p.arg}={_default(d)}" for p, d in zip(plain, defaults, strict=True)]
    if a.vararg:
        out.append(f"*{a.vararg.arg}")
    elif a.kwonlyargs:
        out.append("*")
    out += [k.arg if d is None else f"{k.arg}={_default(d)}" for k, d in zip(a.kwonlyargs, a.kw_defaults, strict=True)]
    if a.kwarg:
        out.append(f"**{a.kwarg.arg}")
    return "(" + ", ".join(out) + ")"


def _names(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            kinds = {ast.unparse(d) for d in node.decorator_list}
            if prefix and {"property", "cached_property", "functools.cached_property"} & kinds:
                text = f"{prefix}{node.name} property"
            elif any(k.endswith((".setter", "overload")) for k in kinds):
                continue
            else:
                text = prefix + node.name + _parameters(node.args)
            if not node.name.startswith("_") or (prefix and node.name == "__init__"):
                yield text
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield f"{prefix}{node.name} class"
            yield from _names(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.Assign | ast.AnnAssign) and not prefix:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name) and not target.id.startswith("_"):
                    yield target.id
        elif isinstance(node, ast.If | ast.Try):
            yield from _names(node.body, prefix)


def table(folder: Path) -> Iterator[str]:
    """Yield the lines of the table for the package in a folder."""
    package = folder / "torch_xla"
    for file in sorted(package.rglob("*.py")):
        parts = file.relative_to(package).with_suffix("").parts
        if any(p in _LEFT_OUT for p in parts):
            continue
        module = ".".join(("torch_xla", *(p for p in parts if p != "__init__")))
        names = list(dict.fromkeys(_names(ast.parse(file.read_text()).body)))
        yield module + ":"
        yield from (f"  {name}" for name in names)


if __name__ == "__main__":
    print("\n".join(table(Path(sys.argv[1]))))
