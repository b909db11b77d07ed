"""Every public function and class says what it takes, returns and raises, and shows it by an example.

The sections are Google's: Args, Returns or Yields, Raises, Example. Returns may be left out where the summary says what
is returned. A method's example may be that of its class. A method that overrides one of ours has its docstring. The
examples themselves are run by tests/docs/test_examples.py.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

import pytest

from build_support import public

# What need not have all sections, each with the reason.
EXCEPTIONS = {
    "*.XlaBackend.*": "methods of torch.distributed.Backend, which only torch calls",
    "*.SPMD*Planner.set_up_planner": "a method of torch's planners, which only torch calls",
    "*.MarkShardingFunction.*ward": "what torch.autograd.Function calls",
    "*.XLAPatchedLinear.*ward": "what torch.autograd.Function calls",
    "*.EinsumLinear.forward": "nn.Linear.forward",
    "*.SpmdFullyShardedDataParallel.forward": "that of the module which is wrapped",
}

_SECTION = re.compile(r"^(Args|Returns|Yields|Raises|Example|Attributes):$", re.MULTILINE)
_SAYS = re.compile(r"\b(returns?|yields?|tell whether)\b", re.IGNORECASE)
NAMES = {name.name: name for name in public.documented()}


def sections(text: str) -> dict[str, str]:
    """Return the sections of a docstring by their names, and its head by the empty one."""
    head, *rest = _SECTION.split(text)
    return {"": head, **dict(zip(rest[::2], rest[1::2], strict=True))}


def decorators(node: public.Definition) -> set[str]:
    return {ast.unparse(decorator).partition("(")[0] for decorator in node.decorator_list}


def parameters(name: public.Name) -> list[str]:
    """Return the parameters of a function, or of a class's ``__init__``; a dataclass states its fields."""
    function: ast.AST | None = name.node
    if isinstance(name.node, ast.ClassDef):
        function = next((m for m in name.node.body if getattr(m, "name", "") == "__init__"), None)
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return []
    a = function.args
    found = [*a.posonlyargs, *a.args, *([a.vararg] if a.vararg else []), *a.kwonlyargs, *([a.kwarg] if a.kwarg else [])]
    method = function is not name.node or (name.owner and "staticmethod" not in decorators(name.node))
    return [p.arg for p in found][1 if method else 0 :]


def raised(node: ast.AST, caught: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield the classes of the errors that a function raises by its own statements, and does not catch."""
    for part in ast.iter_child_nodes(node):
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            continue
        if isinstance(part, ast.Raise) and part.exc is not None:
            error = ast.unparse(part.exc.func if isinstance(part.exc, ast.Call) else part.exc).rpartition(".")[2]
            if error.endswith(("Error", "Exception", "Iteration")) and error not in caught:
                yield error
        handled = {ast.unparse(h.type) for h in part.handlers if h.type} if isinstance(part, ast.Try) else set()
        yield from raised(part, caught | handled)


def returns(node: public.Definition) -> bool:
    if isinstance(node, ast.ClassDef):
        return False
    return ast.unparse(node.returns or ast.Constant(None)) not in ("None", "Iterator[None]", "NoReturn")


def shown(name: public.Name, text: dict[str, str]) -> bool:
    """Return whether a name has an example, or a method is in that of its class."""
    if ">>>" in text.get("Example", ""):
        return True
    example = sections((name.owner and ast.get_docstring(name.owner)) or "").get("Example", "")
    return re.search(rf"\b{name.node.name}\b", example) is not None


def inherited(name: public.Name) -> bool:
    """Return whether a method without a docstring overrides one of ours that has one."""
    bases = {ast.unparse(base) for base in name.owner.bases} if name.owner else set()
    return not ast.get_docstring(name.node) and any(
        other.owner and other.owner.name in bases and other.node.name == name.node.name for other in NAMES.values()
    )


def lacking(name: public.Name) -> list[str]:
    """Return what a docstring lacks."""
    text = sections(ast.get_docstring(name.node) or "")
    if not text[""].strip():
        return [] if inherited(name) else ["a docstring"]
    found = [
        f"Args: {parameter}"
        for parameter in parameters(name)
        if not re.search(rf"^    {parameter}:", text.get("Args", ""), re.MULTILINE)
    ]
    said = _SAYS.search(text[""]) or (name.owner and decorators(name.node) & {"property", "functools.cached_property"})
    if returns(name.node) and not said and not {"Returns", "Yields"} & set(text):
        found.append("Returns")
    if not isinstance(name.node, ast.ClassDef):
        found += [f"Raises: {e}" for e in sorted(set(raised(name.node))) if f"{e}:" not in text.get("Raises", "")]
    return found if shown(name, text) else [*found, "Example"]


@pytest.mark.parametrize("name", NAMES)
def test_a_docstring_is_complete(name: str) -> None:
    if not any(fnmatchcase(name, pattern) for pattern in EXCEPTIONS):
        missing = lacking(NAMES[name])
        assert not missing, f"the docstring of {name} lacks {', '.join(missing)}"


def test_every_constant_says_what_it_is() -> None:
    found = dict(public.constants())
    assert found["torch_go_xla.core.xla_model.REDUCE_SUM"] == "the sum of the values"
    assert [name for name, said in found.items() if not said] == []


def test_the_exceptions_are_needed() -> None:
    needed = [name for name in NAMES if lacking(NAMES[name])]
    assert [p for p in EXCEPTIONS if not any(fnmatchcase(name, p) for name in needed)] == []


def test_what_is_missing_is_found() -> None:
    def of(source: str) -> list[str]:
        return lacking(public.Name("f", ast.parse(source).body[0]))  # type: ignore[arg-type]

    assert of("def f(): pass") == ["a docstring"]
    example = "Example:\n        >>> f(1)"
    assert of(f'def f(x) -> int:\n    """Do it.\n\n    {example}\n    """') == ["Args: x", "Returns"]
    assert of(f'def f():\n    """Do it.\n\n    {example}\n    """\n    raise ValueError') == ["Raises: ValueError"]
    assert of('def f() -> int:\n    """Return it."""') == ["Example"]
    complete = f"Args:\n        x: a number.\n\n    Raises:\n        ValueError: it is none.\n\n    {example}"
    assert of(f'def f(x) -> int:\n    """Return it.\n\n    {complete}\n    """\n    raise ValueError') == []
    assert of(f'class C:\n    """It.\n\n    {example}\n    """\n    def __init__(self, x): pass') == ["Args: x"]
